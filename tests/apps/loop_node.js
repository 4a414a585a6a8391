// SPDX-License-Identifier: BSD-2-Clause
// As tests/apps/loop_kinds.c, on Node.js.  usage: node loop_node.js MODE GO_FILE
// MODE: node (Atomics.wait in a handler)  spawn (execFileSync: libuv's nested loop)
const { existsSync, writeSync } = require('fs');
const { execFileSync } = require('child_process');
const [mode, goFile] = process.argv.slice(2);
const cell = new Int32Array(new SharedArrayBuffer(4));
let blocks = 0;
const uptime = () => BigInt(Math.round(Number(require('fs').readFileSync('/proc/uptime', 'utf8')
  .split(' ')[0]) * 1e9));

function tick() {
  if (!existsSync(goFile)) {
    setTimeout(tick, 100);
    return;
  }
  if (++blocks > 5) {
    setInterval(() => {}, 1 << 30);
    return;
  }
  const boot = uptime();
  const since = process.hrtime.bigint();
  if (mode === 'spawn') execFileSync('sleep', ['0.3']);
  else Atomics.wait(cell, 0, 0, 300);
  writeSync(1, `block ${boot} ${process.hrtime.bigint() - since}\n`);
  setTimeout(tick, 500);
}
setTimeout(tick, 100);
writeSync(1, 'ready\n');
