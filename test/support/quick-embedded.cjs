// NODE_OPTIONS loads this file into every process of a test. The embedded database then compiles
// its WebAssembly without the optimizing compiler, which halves the CPU time of a start (1.9 s to
// 0.9 s), and only the functions that it calls (0.1 s less). A test seldom runs a database long
// enough for optimized code to pay off.
if (process.argv[1]?.endsWith('embedded-server.js'))
  for (const flag of ['--liftoff-only', '--wasm-lazy-compilation', '--wasm-lazy-validation'])
    require('node:v8').setFlagsFromString(flag);
