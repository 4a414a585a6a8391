/* SPDX-License-Identifier: BSD-2-Clause */
/* Draws a report out of the JSON in the page. Texts of a recording become text of nodes and nothing
 * else: no markup is made of them, here or by the charting library, which is given no names. */
(function () {
'use strict';

var data = JSON.parse(document.getElementById('data').textContent);
var rows = data.rows;
var COLOURS = ['#3b78d8', '#d9730d', '#2e9e5b', '#b05bc7', '#c0392b', '#7a6a00', '#12919b', '#d6589a',
	'#6b7f2a', '#5f6bd8', '#a0622d', '#4d8f8f', '#888888'];
/* What a terminal would be turned or blanked by says nothing in a page either. */
var UNPRINTABLE = /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;

function clean(text) {
	return String(text === undefined || text === null ? '' : text).replace(UNPRINTABLE, '\ufffd');
}

/* node(tag, {attribute: value}, child or text, ...) */
function node(tag, attributes) {
	var made = document.createElement(tag), i;
	Object.keys(attributes || {}).forEach(function (key) {
		if (key === 'on') made.addEventListener('click', attributes.on);
		else made.setAttribute(key, attributes[key]);
	});
	for (i = 2; i < arguments.length; i++)
		made.append(arguments[i] instanceof Node ? arguments[i] : clean(arguments[i]));
	return made;
}

function byId(id) { return document.getElementById(id); }

/* ---- numbers ---- */

function get(object, path) {
	return path.split('.').reduce(function (at, key) {
		return at && Object.prototype.hasOwnProperty.call(at, key) ? at[key] : undefined;
	}, object);
}

function fixed(value, digits) {
	return Number(value).toLocaleString('en', {maximumFractionDigits: digits, minimumFractionDigits: 0});
}

function seconds(ns) {
	var s = ns / 1e9;
	if (s >= 7200) return fixed(s / 3600, 1) + ' h';
	if (s >= 120) return fixed(s / 60, 1) + ' min';
	return s >= 1 ? fixed(s, 2) + ' s' : fixed(s * 1000, 1) + ' ms';
}

function bytes(value) {
	var units = ['B', 'KiB', 'MiB', 'GiB', 'TiB'], i = 0, size = Math.abs(value);
	while (size >= 1024 && i < units.length - 1) { size /= 1024; i++; }
	return (value < 0 ? '-' : '') + fixed(size, size < 10 ? 2 : 1) + ' ' + units[i];
}

var wall = rows.length && rows[0][0] > 1e11;

function when(ms) {
	if (!wall) return fixed(ms / 1000, 3) + ' s';
	return new Date(ms).toISOString().replace('T', ' ').replace(/\.000Z$|Z$/, '') + 'Z';
}

/* ---- overview ---- */

function card(title, value, note, state) {
	return node('div', {'class': 'card' + (state ? ' ' + state : '')}, node('span', {}, title),
		node('b', {}, value), node('span', {}, note || ''));
}

function growing(summary) {
	return (get(summary, 'memory.processes') || []).filter(function (row) {
		return (row.low !== undefined && row.low > 0) || (row.rss_low !== undefined && row.rss_low > 0);
	}).length;
}

/* Of the frames that were judged; where that is not told, of those shown and those never shown. */
function jankPct(summary) {
	var told = get(summary, 'frames.jank_pct'), all = get(summary, 'frames.shown') + (get(summary, 'frames.causes.dropped') || 0);
	return told === undefined && !all ? '-' : fixed(told === undefined ? 100 * get(summary, 'frames.janky') / all : told, 2) + ' %';
}

/* Each cause has a colour and a letter; by its number. */
var LETTERS = ['?', 'M', 'R', 'C', 'B', 'L', 'I', 'P', 'G', 'S', 'H', 'F'];

function causeColour(cause) { return cause ? ['#3b78d8', '#12919b', '#d9730d', '#b05bc7', '#c0392b', '#2e9e5b', '#7a6a00', '#5f6bd8', '#a0622d', '#4d6f6f', '#c2417f'][cause - 1] : '#6b6f76'; }
function causeName(cause) { return clean(data.late.causes[cause][0]); }

function causeNode(cause) {
	var mark = node('span', {'class': 'cause', 'aria-hidden': 'true'}, LETTERS[cause]);
	mark.style.background = causeColour(cause);
	return node('span', {}, mark, causeName(cause));
}

/* Numbers of the causes that there are, that of most time first. */
function causesByTime() {
	return data.late.causes.map(function (_, i) { return i; }).filter(function (i) { return data.late.causes[i][1] > 0; })
		.sort(function (a, b) { return data.late.causes[b][2] - data.late.causes[a][2]; });
}

function mostCause() {
	var first = causesByTime()[0];
	return first === undefined ? '' : 'most by ' + causeName(first) + ', ' + seconds(data.late.causes[first][2]);
}

function cards(run) {
	var summary = run.footer.summary || {}, out = [], dur = get(summary, 'dur_ns');
	function has(path) { return get(summary, path) !== undefined; }
	var lost = get(summary, 'lost_pct'), kinds = Object.keys(run.footer.lost || {}), blocks = get(summary, 'blocks.count');
	if (dur) out.push(card('Recorded', seconds(dur), fixed(get(summary, 'intervals'), 0) + ' intervals'));
	if (has('frames.shown'))
		out.push(card('Janky frames', jankPct(summary),
			fixed(get(summary, 'frames.janky'), 0) + ' late or not shown, ' + fixed(get(summary, 'frames.shown'), 0) + ' shown',
			get(summary, 'frames.janky') > 0 ? 'bad' : 'good'));
	if (blocks !== undefined)
		out.push(card('Blocks', fixed(blocks, 0), blocks ? seconds(get(summary, 'blocks.total_ns')) + ' in all, longest ' +
			seconds(get(summary, 'blocks.wall_ns.max') || 0) : '', blocks ? 'bad' : 'good'));
	if (get(summary, 'frames.late') > 0)
		out.push(card('Late frames', seconds(get(summary, 'frames.late_ns') || 0), 'in ' + fixed(get(summary, 'frames.late'), 0) + ' frames; ' + mostCause(), 'bad'));
	if (has('targets.cpu_ns') && dur)
		out.push(card('Target CPU', fixed(100 * get(summary, 'targets.cpu_ns') / dur, 1) + ' %',
			'of one core; ' + seconds(get(summary, 'targets.cpu_ns'))));
	if (has('cpu.busy_ns'))
		out.push(card('All CPUs busy', seconds(get(summary, 'cpu.busy_ns')), has('cpu.online_ns') ?
			fixed(100 * get(summary, 'cpu.busy_ns') / get(summary, 'cpu.online_ns'), 1) + ' % of the machine' : ''));
	if (has('net.rx_bytes'))
		out.push(card('Network', bytes(get(summary, 'net.rx_bytes')), 'received; sent ' + bytes(get(summary, 'net.tx_bytes'))));
	if (has('memory.processes'))
		out.push(card('Memory', growing(summary) ? growing(summary) + ' grow' : 'steady',
			'processes whose slope is above 0 with 95 %', growing(summary) ? 'bad' : 'good'));
	if (lost !== undefined)
		out.push(card('Lost', fixed(lost, 3) + ' %', kinds.length ? 'the largest share of a whole; ' + kinds.length + (kinds.length > 1 ? ' counters' : ' counter') : 'nothing',
			kinds.length ? 'bad' : 'good'));
	if (has('self.cpu_ns') && dur)
		out.push(card('jankscope itself', fixed(100 * get(summary, 'self.cpu_ns') / dur, 3) + ' %', 'of one core'));
	return out;
}

function overview() {
	var first = data.runs[0], what = [];
	if (first) {
		var header = first.header;
		[header.device, header.kernel, header.arch].forEach(function (text) { if (text) what.push(clean(text)); });
		what.push('targets: ' + ((header.targets || []).map(function (target) {
			return clean(target.package || (target.pid !== undefined ? 'pid ' + target.pid : 'uid ' + target.uid));
		}).join(', ') || 'the whole device'));
	}
	if (rows.length) what.push(when(rows[0][0]) + ' to ' + when(rows[rows.length - 1][1]));
	byId('what').append(node('bdi', {}, what.join(' \u00b7 ')));
	data.runs.forEach(function (run, i) {
		var all = node('div', {'class': 'cards'});
		cards(run).forEach(function (one) { all.append(one); });
		if (data.runs.length > 1)
			byId('cards').append(node('h3', {style: 'width:100%'}, 'Run ' + (i + 1)));
		byId('cards').append(all);
		byId('summaries').append(node('details', i ? {} : {open: ''}, node('summary', {},
			'Summary' + (data.runs.length > 1 ? ' of run ' + (i + 1) : '')), node('pre', {tabindex: '0'}, lines(run.text))));
	});
	if (data.left_out.runs)
		byId('summaries').append(node('p', {'class': 'hint'}, data.left_out.runs + ' further runs have no summary here: the file would be too long'));
	byId('made').append('Made by jankscope ' + clean(data.version) + '. Charts: dygraphs (MIT).');
}

/* A text of several lines. */
function lines(text) {
	return document.createTextNode(String(text).split('\n').map(clean).join('\n'));
}

/* ---- timelines ---- */

var charts = [], current = null, full = null, following = false;

function setWindow(from, to, except) {
	if (!full) return;
	var least = Math.min(1000, full[1] - full[0]), width = Math.max(to - from, least);
	from = Math.max(full[0], Math.min(from, full[1] - width));
	current = [from, Math.min(full[1], from + width)];
	if (following) return;
	following = true;
	charts.forEach(function (chart) {
		if (chart.graph !== except) chart.graph.updateOptions({dateWindow: current});
	});
	following = false;
}

function follow(graph, initial) {
	if (initial || following) return;
	var range = graph.xAxisRange();
	if (current && Math.abs(range[0] - current[0]) < 1 && Math.abs(range[1] - current[1]) < 1) return;
	setWindow(range[0], range[1], graph);
}

function colourOf(name) { return getComputedStyle(document.documentElement).getPropertyValue(name); }

function underlay(chart) {
	return function (context, area, graph) {
		function band(from, to, colour, least) {
			var a = graph.toDomXCoord(from), b = Math.max(graph.toDomXCoord(to), a + least);
			if (b < area.x || a > area.x + area.w) return;
			a = Math.max(a, area.x);
			context.fillStyle = colour;
			context.fillRect(a, area.y, Math.min(b, area.x + area.w) - a, area.h);
		}
		scenes.forEach(function (scene) { band(scene.from, scene.to, colourOf('--scene'), 1); });
		data.holes.forEach(function (hole) { band(hole[0], hole[1], colourOf('--hole'), 1); });
		if (chart.spans) data.blocks.rows.forEach(function (row) {
			band(row.x, row.x + row.wall_ns / 1e6, colourOf('--block'), 1);
		});
		if (chart.slopes) chart.slopes.forEach(function (slope) { drawSlope(context, area, graph, slope); });
	};
}

/* The line of Theil and Sen, through the middle of the run and the median. */
function drawSlope(context, area, graph, slope) {
	var y0 = slope.at + slope.perHour * (slope.from - slope.middle) / 3.6e6;
	var y1 = slope.at + slope.perHour * (slope.to - slope.middle) / 3.6e6;
	context.save();
	context.beginPath();
	context.rect(area.x, area.y, area.w, area.h);
	context.clip();
	context.strokeStyle = slope.colour;
	context.setLineDash([6, 4]);
	context.beginPath();
	context.moveTo(graph.toDomXCoord(slope.from), graph.toDomYCoord(y0));
	context.lineTo(graph.toDomXCoord(slope.to), graph.toDomYCoord(y1));
	context.stroke();
	context.restore();
}

/* Of a row: [least, mean, greatest] in the unit of the chart; null: not measured. */
function cell(series, i, scale) {
	if (series.kind === 'level') {
		if (series.mean[i] === null) return null;
		return [series.min[i] * scale, series.mean[i] * scale, series.max[i] * scale];
	}
	if (series.sum[i] === null || !rows[i][2]) return null;
	var mean = series.sum[i] / (rows[i][2] / 1e9);
	return [(series.min ? series.min[i] : mean) * scale, mean * scale, (series.max ? series.max[i] : mean) * scale];
}

function broken(i) { return i && rows[i][0] - rows[i - 1][1] > 50; }

function tableOf(series, scale) {
	var out = [];
	rows.forEach(function (row, i) {
		if (broken(i))
			out.push([new Date((row[0] + rows[i - 1][1]) / 2)].concat(series.map(function () { return null; })));
		out.push([new Date((row[0] + row[1]) / 2)].concat(series.map(function (one) { return cell(one, i, scale); })));
	});
	return out;
}

function nearest(table, ms) {
	var low = 0, high = table.length - 1, middle;
	while (low < high) {
		middle = (low + high) >> 1;
		if (table[middle][0].getTime() < ms) low = middle + 1; else high = middle;
	}
	if (low && ms - table[low - 1][0].getTime() < table[low][0].getTime() - ms) low--;
	return low;
}

function select(ms, from) {
	charts.forEach(function (chart) {
		var row = nearest(chart.table, ms);
		if (chart.graph !== from) chart.graph.setSelection(row);
		showValues(chart, row);
	});
}

function deselect() {
	charts.forEach(function (chart) { chart.graph.clearSelection(); showValues(chart, -1); });
}

function showValues(chart, row) {
	chart.row = row;
	if (chart.time) chart.time.textContent = row < 0 ? '' : when(chart.table[row][0].getTime());
	chart.outs.forEach(function (out, i) {
		var value = row < 0 ? null : chart.table[row][i + 1];
		out.textContent = row < 0 ? '' : value === null ? ': -' : ': ' + (value[0] === value[2] ? chart.format(value[1]) :
			chart.format(value[1]) + ' (' + chart.format(value[0]) + ' to ' + chart.format(value[2]) + ')');
	});
	if (chart.tell) chart.tell(row);
}

function keys(chart, event) {
	var width = current[1] - current[0], step = event.shiftKey ? width / 8 : 0, row;
	var x = chart.row >= 0 ? chart.table[chart.row][0].getTime() : (current[0] + current[1]) / 2;
	switch (event.key) {
	case 'ArrowLeft': case 'ArrowRight':
		if (event.key === 'ArrowLeft') step = -step;
		if (step) { setWindow(current[0] + step, current[1] + step); break; }
		row = nearest(chart.table, x) + (event.key === 'ArrowLeft' ? -1 : 1);
		row = Math.max(0, Math.min(chart.table.length - 1, row));
		select(chart.table[row][0].getTime());
		break;
	case '+': case '=': setWindow(x - width / 4, x + width / 4); break;
	case '-': setWindow(x - width, x + width); break;
	case 'Escape': case '0': setWindow(full[0], full[1]); deselect(); break;
	default: return;
	}
	event.preventDefault();
}

function addChart(title, names, table, format, more) {
	var chart = {table: table, format: format, row: -1, outs: []};
	var place = node('div', {'class': 'chart' + (more.tall ? ' tall' : ''), tabindex: '0', role: 'group',
		'aria-label': title + ': a timeline; left and right move the cursor, + and - zoom'});
	var values = node('div', {'class': 'values'}), box = byId('charts'), colours = more.colours || COLOURS;
	chart.time = node('span', {});
	box.append(node('h3', {}, title, ' '), place, values);
	Object.keys(more).forEach(function (key) { chart[key] = more[key]; });
	names.forEach(function (name, i) {
		var out = node('span', {}), swatch = node('i', {});
		swatch.style.background = colours[i % colours.length];
		chart.outs.push(out);
		values.append(node('button', {type: 'button', 'aria-pressed': String(!more.visibility || more.visibility[i]), title: clean(name), on: function (event) {
			var shown = event.currentTarget.getAttribute('aria-pressed') === 'true';
			event.currentTarget.setAttribute('aria-pressed', String(!shown));
			chart.graph.setVisibility(i, !shown);
		}}, swatch, node('bdi', {}, name), out));
	});
	values.append(chart.time);
	var options = {
		labels: ['x'].concat(names.map(function (_, i) { return 's' + i; })),
		colors: names.map(function (_, i) { return colours[i % colours.length]; }),
		customBars: true, legend: 'never', labelsUTC: true, dateWindow: full.slice(), fillAlpha: 0.22,
		gridLineColor: 'rgba(128,128,128,.25)', axisLineColor: 'rgba(128,128,128,.6)', highlightCircleSize: 3,
		strokeWidth: 1.3, includeZero: !more.levels, animatedZooms: false, rightGap: 8,
		xRangePad: 0, yRangePad: 4,
		axes: {y: {axisLabelWidth: 62, axisLabelFormatter: function (value) { return format(value); }},
			x: wall ? {} : {axisLabelFormatter: function (x) { return fixed(Number(x) / 1000, 0) + ' s'; }}},
		underlayCallback: underlay(chart), drawCallback: follow,
		highlightCallback: function (event, x) { select(x, chart.graph); },
		unhighlightCallback: deselect
	};
	if (more.plotter) options.plotter = more.plotter;
	if (more.visibility) options.visibility = more.visibility;
	chart.graph = new Dygraph(place, table, options);
	chart.place = place;
	place.addEventListener('keydown', function (event) { keys(chart, event); });
	charts.push(chart);
	return chart;
}

function ofGroup(group) {
	return data.series.filter(function (series) { return series.group === group; });
}

function nameOf(series, others) { return series.name === undefined ? others : series.name; }

function seriesChart(title, group, scale, format, others, more) {
	var series = ofGroup(group);
	if (!series.length) return null;
	return addChart(title, series.map(function (one) { return nameOf(one, others); }), tableOf(series, scale), format, more || {});
}

/* A block is a bar as long and as high as it lasted. */
function blockBars(row) {
	var context = row.drawingContext, bottom = row.dygraph.toDomYCoord(0);
	row.points.forEach(function (point, i) {
		var block = blockChart.blocks[point.idx === undefined ? i : point.idx];
		if (!block) return;
		var left = row.dygraph.toDomXCoord(block.x), right = row.dygraph.toDomXCoord(block.x + block.wall_ns / 1e6);
		context.fillStyle = block.class === 'ANR' ? '#c0392b' : block.class === 'long' ? '#d9730d' : '#3b78d8';
		context.fillRect(left, point.canvasy, Math.max(2, right - left), bottom - point.canvasy);
	});
}

var blockChart = {blocks: []};

function addBlockChart() {
	var blocks = data.blocks.rows.slice().sort(function (a, b) { return a.x - b.x; });
	if (!blocks.length) return;
	blockChart.blocks = blocks;
	var note = node('p', {'class': 'hint', 'aria-live': 'polite'});
	addChart('Blocks of main threads (height: how long; red ANR, orange long, blue short)',
		['the ' + fixed(blocks.length, 0) + ' longest of ' + fixed(data.blocks.count, 0)],
		blocks.map(function (row) { var s = row.wall_ns / 1e9; return [new Date(row.x), [s, s, s]]; }),
		function (value) { return fixed(value, 2) + ' s'; },
		{plotter: blockBars, tell: function (row) {
			note.textContent = row < 0 ? '' : clean(blocks[row].process) + ', ' + blocks[row].class + ', ' + seconds(blocks[row].wall_ns);
		}});
	byId('charts').append(note);
}

var lateChart = {frames: []};

function lateX(row) { return row.us / 1000; }

/* A late frame is a bar as long as its window and as high as it was late, with the letter of its cause. */
function lateBars(row) {
	var context = row.drawingContext, bottom = row.dygraph.toDomYCoord(0), before = -99, letters = [];
	context.font = '10px sans-serif';
	context.textAlign = 'center';
	row.points.forEach(function (point, i) {
		var frame = lateChart.frames[point.idx === undefined ? i : point.idx];
		if (!frame) return;
		var left = row.dygraph.toDomXCoord(lateX(frame)), width = Math.max(2, row.dygraph.toDomXCoord(lateX(frame) + frame.window_ns / 1e6) - left);
		context.fillStyle = causeColour(frame.cause);
		context.fillRect(left, point.canvasy, width, bottom - point.canvasy);
		if (left + width / 2 - before < 10) return;
		before = left + width / 2;
		letters.push([frame.cause, before, Math.max(point.canvasy - 2, 9)]);
	});
	/* No bar stands in front of a letter. */
	letters.forEach(function (letter) {
		context.fillStyle = causeColour(letter[0]);
		context.fillText(LETTERS[letter[0]], letter[1], letter[2]);
	});
}

function addLateCharts() {
	var frames = data.late.rows.slice().sort(function (a, b) { return a.us - b.us; }), series = ofGroup('late');
	function numberOf(one) { return data.late.causes.findIndex(function (cause) { return cause[0] === one.name; }); }
	if (!frames.length) return;
	series = series.filter(function (one) { return numberOf(one) >= 0; });
	addChart('Late frames: ms late a second, by cause', series.map(function (one) { return LETTERS[numberOf(one)] + ' ' + one.name; }), tableOf(series, 1e-6),
		function (value) { return fixed(value, value < 10 ? 2 : 0) + ' ms'; }, {colours: series.map(function (one) { return causeColour(numberOf(one)); })});
	lateChart.frames = frames;
	var note = node('p', {'class': 'hint', 'aria-live': 'polite'});
	addChart('Late frames (height: how late; colour and letter: the cause, as above)', ['the ' + fixed(frames.length, 0) + ' latest of ' + fixed(data.late.count, 0)],
		frames.map(function (row) { var ms = row.late_ns / 1e6; return [new Date(lateX(row)), [ms, ms, ms]]; }),
		function (value) { return fixed(value, 1) + ' ms'; },
		{plotter: lateBars, colours: ['#6b6f76'], tell: function (row) {
			note.textContent = row < 0 ? '' : clean(frames[row].process) + ': ' + causeName(frames[row].cause) + ': ' + clean(frames[row].why);
		}});
	byId('charts').append(note);
}

function slopesOf(series) {
	var out = [];
	data.runs.forEach(function (run) {
		(get(run, 'footer.summary.memory.processes') || []).forEach(function (row) {
			var kind = row.pss_slope_bytes_per_h !== undefined ? 'PSS' : 'RSS', spread = kind === 'PSS' ? row.pss_bytes : row.rss_bytes;
			var slope = kind === 'PSS' ? row.pss_slope_bytes_per_h : row.rss_slope_bytes_per_h, at = -1, first = -1, last = -1;
			if (slope === undefined || !spread) return;
			series.forEach(function (one, i) {
				if (one.name === kind + ' of ' + (row.process || row.package || '-') + ' ' + row.pid) at = i;
			});
			if (at < 0) return;
			series[at].mean.forEach(function (value, i) { if (value !== null) { if (first < 0) first = i; last = i; } });
			if (first < 0) return;
			out.push({from: rows[first][0], to: rows[last][1], middle: (rows[first][0] + rows[last][1]) / 2,
				at: spread.p50, perHour: slope, colour: COLOURS[at % COLOURS.length]});
		});
	});
	return out;
}

function timelines() {
	if (!rows.length) {
		byId('charts').append(node('p', {}, 'No interval was recorded.'));
		return;
	}
	full = [rows[0][0], rows[rows.length - 1][1]];
	data.blocks.rows.forEach(function (row) {
		full[0] = Math.min(full[0], row.x);
		full[1] = Math.max(full[1], row.x + row.wall_ns / 1e6);
	});
	data.late.rows.forEach(function (row) {
		full[0] = Math.min(full[0], lateX(row));
		full[1] = Math.max(full[1], lateX(row) + row.window_ns / 1e6);
	});
	if (full[1] - full[0] < 1) full[1] = full[0] + 1;
	current = full.slice();
	function percent(value) { return fixed(value, 1) + ' %'; }
	function rate(value) { return bytes(value) + '/s'; }
	function number(value) { return fixed(value, value < 10 ? 2 : 0); }
	seriesChart('CPU by thread, % of one core', 'cpu', 1e-7, percent, 'all other threads', {tall: true, spans: true});
	seriesChart('Frames a second', 'frames', 1, number, '', {spans: true});
	addLateCharts();
	addBlockChart();
	seriesChart('Memory (dashed: slope)', 'memory', 1, bytes, '', {tall: true, levels: true, slopes: slopesOf(ofGroup('memory')),
		visibility: ofGroup('memory').map(function (one, i, all) { return one.unit !== 'system' || all.length === 1; })});
	seriesChart('Network', 'net', 1, rate, '', {});
	seriesChart('Battery current', 'power', 1e-3, function (value) { return fixed(value, 0) + ' mA'; }, '', {levels: true});
	seriesChart('Temperature', 'heat', 1e-3, function (value) { return fixed(value, 1) + ' C'; }, '', {levels: true});
	seriesChart('Lost, late and repaired, a second', 'losses', 1, number, 'others', {});
	if (!ofGroup('losses').length)
		byId('charts').append(node('p', {'class': 'hint'}, 'Nothing was lost, late or repaired.'));
	byId('charts').append(node('p', {'class': 'hint'}, 'Grey: no record (' + fixed(data.holes.length + data.left_out.holes, 0) +
		' gaps). Blue shade: scenes. Red lines: blocks.'));
	if (!wall) byId('charts').append(node('p', {'class': 'hint'}, 'The wall clock was not set: times are of the boot clock.'));
}

/* ---- flame graph ---- */

var tree = null, zoomed = null;

function makeTree() {
	var names = data.flame.names, root = {name: 'all blocks', ns: 0, kids: new Map(), parent: null, depth: 0};
	function child(parent, name) {
		var kid = parent.kids.get(name);
		if (!kid) {
			kid = {name: name, ns: 0, kids: new Map(), parent: parent, depth: parent.depth + 1};
			parent.kids.set(name, kid);
		}
		return kid;
	}
	data.flame.stacks.forEach(function (stack) {
		var at = root;
		root.ns += stack[0];
		for (var i = 1; i < stack.length; i++) {
			at = child(at, names[stack[i]]);
			at.ns += stack[0];
		}
		if (stack.length === 2) child(at, '[not sampled]').ns += stack[0];
	});
	if (data.flame.left_out_ns) {
		root.ns += data.flame.left_out_ns;
		child(root, '[in stacks that have no room here]').ns += data.flame.left_out_ns;
	}
	return root;
}

function hue(name) {
	var hash = 0;
	for (var i = 0; i < name.length; i++) hash = (hash * 31 + name.charCodeAt(i)) | 0;
	return 'hsl(' + (20 + Math.abs(hash) % 40) + ',' + (70 + Math.abs(hash >> 8) % 20) + '%,' + (68 + Math.abs(hash >> 16) % 12) + '%)';
}

function tellFrame(at) {
	byId('frame').textContent = at ? clean(at.name) + ': ' + seconds(at.ns) + ', ' + fixed(100 * at.ns / tree.ns, 2) + ' % of blocked time' : '';
}

function drawFlame() {
	var box = byId('flame'), word = byId('search').value.toLowerCase(), deepest = 0, drawn = 0, found = 0;
	var todo = [], width = 100 / zoomed.ns, at = zoomed, above = [];
	box.textContent = '';
	while (at.parent) { at = at.parent; above.unshift(at); }
	above.forEach(function (one, i) { todo.push([one, 0, i, true, 100]); });
	todo.push([zoomed, 0, above.length, true, 100]);
	/* Children after their parents, so that a search counts the outermost frame that it finds. */
	for (var i = 0; i < todo.length && drawn < 5000; i++) {
		var one = todo[i][0], left = todo[i][1], level = todo[i][2], free = todo[i][3], share = todo[i][4];
		var hit = word && clean(one.name).toLowerCase().indexOf(word) >= 0;
		if (hit && free) { found += one.ns; free = false; }
		var item = node('div', {role: 'treeitem', tabindex: drawn ? '-1' : '0', 'aria-level': String(level + 1),
			title: clean(one.name) + ', ' + seconds(one.ns)}, node('bdi', {}, one.name));
		item.style.left = left + '%';
		item.style.width = share + '%';
		item.style.top = level * 18 + 'px';
		item.style.background = hue(one.name);
		if (hit) item.classList.add('hit');
		item.frame = one;
		one.item = item;
		box.append(item);
		drawn++;
		deepest = Math.max(deepest, level);
		if (level < above.length || level > 200) continue;
		one.kids.forEach(function (kid) {
			var size = kid.ns * width;
			kid.item = null;
			if (size >= 0.12) todo.push([kid, left, level + 1, free, size]);
			left += size;
		});
	}
	box.style.height = (deepest + 1) * 18 + 'px';
	byId('found').textContent = word ? 'found in ' + seconds(found) + ' (' + fixed(100 * found / zoomed.ns, 1) + ' %)' : '';
}

function zoomTo(at, focus) {
	zoomed = at;
	drawFlame();
	tellFrame(at);
	if (focus && at.item) at.item.focus();
}

function besides(at, step) {
	var all = at.parent ? Array.from(at.parent.kids.values()).filter(function (kid) { return kid.item; }) : [at];
	return all[all.indexOf(at) + step];
}

function flame() {
	var box = byId('flame');
	tree = zoomed = makeTree();
	if (!tree.ns) {
		box.append(node('p', {}, 'No main thread was blocked.'));
		return;
	}
	drawFlame();
	box.addEventListener('click', function (event) {
		var item = event.target.closest('[role=treeitem]');
		if (item) zoomTo(item.frame, true);
	});
	box.addEventListener('mouseover', function (event) {
		var item = event.target.closest('[role=treeitem]');
		tellFrame(item && item.frame);
	});
	box.addEventListener('focusin', function (event) {
		box.querySelectorAll('[tabindex="0"]').forEach(function (item) { item.tabIndex = -1; });
		event.target.tabIndex = 0;
		tellFrame(event.target.frame);
	});
	box.addEventListener('keydown', function (event) {
		var at = event.target.frame, to = null;
		if (!at) return;
		if (event.key === 'Enter' || event.key === ' ') { zoomTo(at, true); event.preventDefault(); return; }
		if (event.key === 'Escape') { zoomTo(tree, true); return; }
		if (event.key === 'ArrowUp') to = at.parent;
		if (event.key === 'ArrowDown') to = Array.from(at.kids.values()).filter(function (kid) { return kid.item; })[0];
		if (event.key === 'ArrowLeft') to = besides(at, -1);
		if (event.key === 'ArrowRight') to = besides(at, 1);
		if (to && to.item) { to.item.focus(); event.preventDefault(); }
	});
	byId('search').addEventListener('input', drawFlame);
	byId('unzoom').addEventListener('click', function () { zoomTo(tree, false); });
}

/* ---- tables ---- */

/* heads: [title, is a number]; cells: nodes, texts, or [sort key, text] */
function table(place, heads, body) {
	var head = node('tr', {}), list = node('tbody', {}), made = node('table', {}, node('thead', {}, head), list);
	var records = body.map(function (cells) {
		var row = node('tr', {});
		cells.forEach(function (one, i) {
			var shown = Array.isArray(one) ? one[1] : one;
			row.append(node('td', heads[i][1] ? {'class': 'n'} : {}, shown instanceof Node ? shown : node('bdi', {}, shown)));
		});
		list.append(row);
		return {row: row, keys: cells.map(function (one) { return Array.isArray(one) ? one[0] : one instanceof Node ? '' : one; })};
	});
	heads.forEach(function (title, i) {
		var th = node('th', {'class': title[1] ? 'n' : '', scope: 'col'}), down = true;
		if (title[2] === false) th.append(title[0]);
		else th.append(node('button', {type: 'button', on: function () {
			records.sort(function (a, b) { return (a.keys[i] < b.keys[i] ? -1 : a.keys[i] > b.keys[i] ? 1 : 0) * (down ? -1 : 1); });
			down = !down;
			records.forEach(function (record) { list.append(record.row); });
		}}, title[0]));
		head.append(th);
	});
	place.append(node('div', {'class': 'scroll', tabindex: '0', role: 'group', 'aria-label': 'a table'}, made));
}

function stackText(stack) {
	return stack.frames.map(function (name, i) { return (i ? '  ' : '') + clean(name); }).join('\n') +
		(stack.more ? '\n  and ' + stack.more + ' more' : '') + (stack.complete ? '' : '\n  (cut: ' + clean(stack.end) + ')');
}

function details(title, text) {
	return node('details', {}, node('summary', {}, title), node('pre', {tabindex: '0'}, lines(text)));
}

function who(thread) { return clean(thread.thread) + ' ' + thread.tid + (thread.process ? ' of ' + clean(thread.process) : ''); }

function stacksOf(row) {
	var cell = node('div', {});
	(row.stacks || []).forEach(function (stack, i) {
		cell.append(details((stack.frames.length ? clean(stack.frames[0]) : 'no frame') + (i ? ', ' : ' \u2014 ') + seconds(stack.ns), stackText(stack)));
	});
	if (row.stack_count > (row.stacks || []).length)
		cell.append(node('span', {'class': 'hint'}, 'and ' + (row.stack_count - row.stacks.length) + ' more stacks'));
	if (row.without) cell.append(row.without);
	(row.chain || []).forEach(function (link) {
		var title = '\u2190 ' + clean(link.how) + (link.what ? ' (' + clean(link.what) + ')' : '') + ': ' + who(link) +
			(link.queued_ns !== undefined ? ', queued ' + seconds(link.queued_ns) : '') + (link.served_ns !== undefined ? ', served ' + seconds(link.served_ns) : '') +
			(link.served_cpu_ns !== undefined ? ' (' + seconds(link.served_cpu_ns) + ' on a CPU)' : '');
		cell.append(link.stack ? details(title, stackText(link.stack)) : node('div', {}, title));
	});
	if (row.deadlock) cell.append(node('div', {'class': 'anr'}, 'deadlock: the last of the chain waits for one of it'));
	['owner', 'waker'].forEach(function (key) {
		var title = row[key] && (key === 'owner' ? 'held by ' : 'woken by ') + who(row[key]);
		if (title) cell.append(row[key].stack ? details(title, stackText(row[key].stack)) : node('div', {}, title));
	});
	return cell;
}

function parts(ledger, tell) {
	var all = [['running_ns', 'ran'], ['runnable_ns', 'waited for a CPU'], ['sleeping_ns', 'slept'], ['uninterruptible_ns', 'in D'], ['stopped_ns', 'stopped'],
		['unknown_ns', 'not recorded']];
	return all.filter(function (part) { return ledger[part[0]] > 0; }).map(function (part) { return part[1] + ' ' + tell(ledger[part[0]]); }).join(', ');
}

function ledger(row) {
	return parts(row.ledger, function (ns) { return fixed(100 * ns / row.wall_ns, 0) + ' %'; });
}

function lateThreads(row) {
	var cell = node('div', {});
	row.threads.forEach(function (thread) {
		cell.append(node('div', {}, clean(thread.role) + ' (', node('bdi', {}, thread.thread), ' ' + thread.tid + '): ' + (parts(thread.ledger, seconds) || 'nothing') +
			(thread.reason ? '; for ' + clean(thread.reason) : '')));
	});
	cell.append(stacksOf(row));
	return cell;
}

function lateFrames() {
	var list = data.late.rows, runs = data.runs.some(function (run) { return get(run, 'footer.summary.frames.late') !== undefined; });
	byId('late-note').textContent = data.late.count ? fixed(data.late.count, 0) + ' frames were late or dropped, by ' + seconds(data.late.late_ns) + ' in all' +
		(list.length < data.late.count ? '; below are the ' + fixed(list.length, 0) + ' latest' : '') + '.' :
		runs ? 'No frame of a target was late.' : 'It was not asked why frames were late (record -p APP --frames perfetto).';
	if (!list.length) return;
	table(byId('late-causes'), [['Cause', false], ['Frames', true], ['Late in all', true], ['Share', true]], causesByTime().map(function (cause) {
		var row = data.late.causes[cause];
		return [[causeName(cause), causeNode(cause)], [row[1], fixed(row[1], 0)], [row[2], seconds(row[2])], [row[2], data.late.late_ns ? fixed(100 * row[2] / data.late.late_ns, 1) + ' %' : '-']];
	}));
	table(byId('late'), [['Begin', false], ['Late', true], ['Process', false], ['Cause', false], ['Why', false], ['What its threads did in its window', false, false]], list.map(function (row) {
		var cause = causeNode(row.cause), ms = lateX(row);
		if (row.second) cause.append(', then ', causeName(row.second));
		return [[row.us, node('button', {type: 'button', title: 'Show it in the timelines', on: function () {
			setWindow(ms - 2000, ms + row.window_ns / 1e6 + 2000);
			byId('timelines').scrollIntoView();
		}}, when(Math.floor(ms)))], [row.late_ns, (row.dropped ? 'dropped, ' : '') + seconds(row.late_ns)], clean(row.process) + ' ' + row.pid, [causeName(row.cause), cause],
			clean(row.why).replace(/^(dropped|\+ *[0-9.]+ ms) +/, ''), lateThreads(row)];
	}));
}

function blocks() {
	var list = data.blocks.rows;
	byId('blocks-note').textContent = data.blocks.count ? 'The ' + fixed(list.length, 0) + ' longest of ' + fixed(data.blocks.count, 0) +
		'; all of them lasted ' + seconds(data.blocks.wall_ns) + '.' : 'No main thread was blocked.';
	if (!list.length) return;
	table(byId('blocks'), [['Begin', false], ['Lasted', true], ['Process', false], ['Time', false], ['For', false], ['Stack, and who it waited for', false, false]],
		list.map(function (row) {
			var go = node('button', {type: 'button', title: 'Show it in the timelines', on: function () {
				var wide = Math.max(row.wall_ns / 1e6, 2000);
				setWindow(row.x - wide, row.x + row.wall_ns / 1e6 + wide);
				byId('timelines').scrollIntoView();
			}}, when(row.x));
			return [[row.x, go], [row.wall_ns, node('span', {'class': row.class === 'ANR' ? 'anr' : row.class === 'long' ? 'long' : ''},
				seconds(row.wall_ns) + ' ' + row.class + (row.state === 'closed' ? '' : ', ' + row.state))], clean(row.process) + ' ' + row.pid, ledger(row),
				row.reasons.map(function (reason) { return clean(reason[0]) + ' ' + seconds(reason[1]); }).join(', '), stacksOf(row)];
		}));
}

var scenes = [];

function readScenes() {
	var open = new Map(), end = rows.length ? rows[rows.length - 1][1] : 0;
	data.events.forEach(function (event) {
		if (event.event !== 'mark' || !event.name) return;
		if (event.state !== 'end') { open.set(event.name, event.x); return; }
		if (open.has(event.name)) scenes.push({name: event.name, from: open.get(event.name), to: event.x});
		open.delete(event.name);
	});
	open.forEach(function (from, name) { scenes.push({name: name, from: from, to: end}); });
}

function sceneTable() {
	var body = [];
	data.runs.forEach(function (run) {
		var all = get(run, 'footer.summary.scenes') || {};
		Object.keys(all).forEach(function (name) {
			var sums = all[name];
			function sum(path, format) { var value = get(sums, path); return value === undefined ? [-1, '-'] : [value, format(value)]; }
			function count(value) { return fixed(value, 0); }
			body.push([name, sum('times', count), sum('dur_ns', seconds), sum('cpu.busy_ns', seconds), sum('targets.cpu_ns', seconds),
				sum('frames.shown', count), sum('frames.janky', count), sum('blocks.count', count), sum('blocks.total_ns', seconds),
				sum('net.rx_bytes', bytes), sum('net.tx_bytes', bytes)]);
		});
	});
	if (!body.length) { byId('scenes').append(node('p', {}, 'No scene was marked (jankscope mark DIR NAME).')); return; }
	table(byId('scenes'), [['Scene', false], ['Times', true], ['Time', true], ['CPU busy', true], ['Target CPU', true], ['Frames', true], ['Janky', true],
		['Blocks', true], ['Blocked', true], ['Received', true], ['Sent', true]], body);
}

function memoryTable() {
	var body = [];
	data.runs.forEach(function (run) {
		(get(run, 'footer.summary.memory.processes') || []).forEach(function (row) {
			function of(path, format) { var value = get(row, path); return value === undefined ? [-1, '-'] : [value, format(value)]; }
			var pss = row.pss_slope_bytes_per_h !== undefined, slope = pss ? row.pss_slope_bytes_per_h : row.rss_slope_bytes_per_h;
			var low = pss ? row.low : row.rss_low, high = pss ? row.high : row.rss_high;
			body.push([clean(row.process || row.package || '-') + ' ' + row.pid + (row.exited ? ' (ended)' : ''), of('pss_bytes.p50', bytes), of('pss_bytes.max', bytes),
				of('rss_bytes.p50', bytes), of('rss_bytes.max', bytes), slope === undefined ? [-1e300, '-'] : [slope, bytes(slope) + '/h' + (pss ? '' : ' (RSS)')],
				low === undefined ? '-' : bytes(low) + ' to ' + bytes(high)]);
		});
	});
	if (!body.length) { byId('memory').append(node('p', {}, 'No process was measured.')); return; }
	table(byId('memory'), [['Process', false], ['PSS, half', true], ['most', true], ['RSS, half', true], ['most', true], ['Slope', true], ['95 %', false]], body);
}

function eventTable() {
	var body = data.events.map(function (event) {
		var told = Object.keys(event).filter(function (key) { return key !== 'x' && key !== 'event'; }).map(function (key) {
			var value = event[key];
			return clean(key) + ' ' + (/_ns$/.test(key) && !/_boot_ns$/.test(key) ? seconds(value) : clean(value));
		}).join(', ');
		return [[event.x, when(event.x)], clean(event.event), told];
	}).concat(data.holes.map(function (hole) {
		return [[hole[0], when(hole[0])], hole[2], 'no record for ' + seconds((hole[1] - hole[0]) * 1e6)];
	})).sort(function (a, b) { return a[0][0] - b[0][0]; });
	if (data.left_out.events) body.push(['', '', fixed(data.left_out.events, 0) + ' later events have no room here']);
	if (!body.length) { byId('events').append(node('p', {}, 'There were none.')); return; }
	table(byId('events'), [['Time', false], ['Event', false], ['What', false, false]], body);
}

/* ---- the page ---- */

function setTheme(theme) {
	document.documentElement.setAttribute('data-theme', theme);
	charts.forEach(function (chart) { chart.graph.updateOptions({}); });
}

function themes() {
	var dark = matchMedia('(prefers-color-scheme: dark)'), before;
	setTheme(dark.matches ? 'dark' : 'light');
	dark.addEventListener('change', function () { setTheme(dark.matches ? 'dark' : 'light'); });
	byId('theme').addEventListener('click', function () {
		setTheme(document.documentElement.getAttribute('data-theme') === 'dark' ? 'light' : 'dark');
	});
	addEventListener('beforeprint', function () {
		before = document.documentElement.getAttribute('data-theme');
		setTheme('light');
		charts.forEach(function (chart) { chart.graph.resize(680, chart.place.clientHeight); });
	});
	addEventListener('afterprint', function () {
		setTheme(before);
		charts.forEach(function (chart) { chart.graph.resize(); });
	});
	byId('reset').addEventListener('click', function () { if (full) setWindow(full[0], full[1]); });
}

function rest() {
	timelines();
	lateFrames();
	flame();
	blocks();
	sceneTable();
	memoryTable();
	eventTable();
	document.documentElement.setAttribute('data-ready', String(Math.round(performance.now())));
}

themes();
readScenes();
overview();
/* The overview is on the screen before the charts are drawn. */
requestAnimationFrame(function () { setTimeout(rest, 0); });
})();
