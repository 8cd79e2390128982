import { readFileSync } from 'node:fs';
import type { Reporter, TestModule, Vitest } from 'vitest/node';

/** The condition of a test or a group of tests. */
const CONDITION = /\.(?:skipIf|runIf)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)/g;

/**
 * Ends the output with one line for scripts: `N passed, N failed, N skipped`. Before this line,
 * lists the files with skipped tests, and the conditions of these tests.
 */
export default class CountReporter implements Reporter {
  #isFiltered = false;

  onInit(vitest: Vitest): void {
    this.#isFiltered = vitest.config.testNamePattern !== undefined;
  }

  onTestRunEnd(modules: readonly TestModule[], errors: readonly unknown[]): void {
    const count = { passed: 0, failed: errors.length, skipped: 0 };
    for (const module of modules) {
      const before = { ...count };
      for (const test of module.children.allTests()) {
        const { state } = test.result();
        if (state !== 'pending') count[state]++;
      }
      // The failure is outside the tests: in the file, or in a hook, whose tests count as skipped.
      if (module.state() === 'failed' && count.failed === before.failed) count.failed++;
      if (count.skipped > before.skipped && !this.#isFiltered)
        console.log(skippedLine(module, count.skipped - before.skipped));
    }
    console.log(`${count.passed} passed, ${count.failed} failed, ${count.skipped} skipped`);
  }
}

function skippedLine(module: TestModule, tests: number): string {
  const conditions = readFileSync(module.moduleId, 'utf8').match(CONDITION) ?? [];
  const said = [...new Set(conditions.map((one) => one.slice(1).replace(/\s+/g, ' ')))].join(', ');
  return `skipped ${tests} in ${module.relativeModuleId}: ${said || 'skipped by hand'}`;
}
