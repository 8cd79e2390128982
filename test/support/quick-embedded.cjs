// Loaded into every process of a test by NODE_OPTIONS. The server of the embedded database compiles its
// WebAssembly once, without the optimizing compiler: that halves the processor time of a start (1.9 s to 0.9 s),
// and a test that starts a database seldom runs long enough to win the time back.
if (process.argv[1]?.endsWith('embedded-server.js'))
  require('node:v8').setFlagsFromString('--liftoff-only');
