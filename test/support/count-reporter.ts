import { readFileSync } from 'node:fs';
import type { Reporter, TestModule, Vitest } from 'vitest/node';

/** What a test, or a group of them, is run for. */
const CONDITION = /\.(?:skipIf|runIf)\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\)/g;

/**
 * Ends the output with one line that scripts can read: `N passed, N failed, N skipped`, and before it tells which files
 * have skipped tests, and the conditions that they have for it.
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
      // What failed is outside of its tests: the file, or a hook, whose tests count as skipped.
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
