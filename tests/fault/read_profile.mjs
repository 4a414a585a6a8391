// SPDX-License-Identifier: BSD-2-Clause
// What Datadog's pprof-format, a reader that nobody here wrote, finds in a profile, as JSON.
// usage: node read_profile.mjs PACKAGE_FOLDER PROFILE
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { pathToFileURL } from "node:url";

const [folder, path] = process.argv.slice(2);
const { Profile } = await import(pathToFileURL(`${folder}/dist/esm/index.js`));
const profile = Profile.decode(gunzipSync(readFileSync(path)));
const text = (at) => profile.stringTable.strings[Number(at)];
const by_id = (rows) => new Map(rows.map((row) => [Number(row.id), row]));
const [locations, functions, mappings] = [profile.location, profile.function, profile.mapping].map(by_id);
const frames = (location) => location.line.map((line) => text(functions.get(Number(line.functionId)).name));

console.log(JSON.stringify({
	types: profile.sampleType.map((type) => `${text(type.type)}/${text(type.unit)}`),
	build_ids: [...mappings.values()].map((mapping) => text(mapping.buildId)),
	samples: profile.sample.map((sample) => ({
		values: sample.value.map(Number),
		labels: Object.fromEntries(sample.label.map((label) => [text(label.key), text(label.str)])),
		frames: sample.locationId.flatMap((id) => frames(locations.get(Number(id)))),
	})),
}));
