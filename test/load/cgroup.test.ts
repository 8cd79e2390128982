import { execFileSync } from 'node:child_process';
import { readFileSync, rmdirSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { Callers, makeMemoryGroup } from '../support/callers.ts';
import { isRunning } from '../support/processes.ts';
import { leastPrivilegePlace, startService, until } from '../support/service.ts';

const LIMIT_BYTES = 512 * 1_048_576;
const BODIES = 16;

const group = makeMemoryGroup(LIMIT_BYTES);

test.skipIf(group === undefined)(
  'L11: sixteen bodies of ten thousand values at once, in 512 MiB: each is answered, nothing is killed',
  async () => {
    const place = await leastPrivilegePlace();
    const service = await startService(place);
    group!.take(service.pid);
    const callers = new Callers(service, BODIES);
    for (let round = 0; round < 3; round++) {
      const replies = await Promise.all(
        Array.from({ length: BODIES }, (_, body) => {
          const values = Array.from({ length: 10_000 }, (_, i) => `${round} ${body} field ${i}`);
          return callers.call('tokenize', { values });
        }),
      );
      const statuses = replies.map((reply) => reply?.status);
      expect(statuses.filter((status) => status !== 200 && status !== 503)).toEqual([]);
      expect(statuses).toContain(200);
    }
    expect(group!.kills()).toBe(0);
    const members = readFileSync(join(group!.folder, 'cgroup.procs'), 'utf8').trim().split('\n');
    expect(members).toEqual([String(service.pid)]);
    callers.close();
    await service.stop();
    place.remove();
    await until(() => !isRunning(service.pid), 'the end of the service');
    rmdirSync(group!.folder);
    // The limit is one: what asks for more is killed.
    const limited = makeMemoryGroup(LIMIT_BYTES)!;
    const script = `echo $$ > ${limited.folder}/cgroup.procs; exec ${process.execPath} -e 'const kept = []; for (;;) kept.push(Buffer.alloc(1e7, 1))'`;
    expect(() => execFileSync('sh', ['-c', script], { stdio: 'ignore' })).toThrow();
    expect(limited.kills()).toBe(1);
    await until(
      () => readFileSync(join(limited.folder, 'cgroup.procs'), 'utf8') === '',
      'an empty group',
    );
    rmdirSync(limited.folder);
  },
);
