import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { WIDE_FIELDS } from './bodies.ts';
import { startStandin } from './contestants.ts';
import { type Load, type SmallLoadName, STEADY_CONNECTIONS, small } from './loads.ts';
import type { Bench, Starter } from './turns.ts';

/** Records of ten fields, with a policy and without: what a policy costs. */
export const WITHOUT_POLICY = 'Standin without a policy';
export const WITH_POLICY = 'Standin, a policy of ten fields';

export const POLICY_LOADS = (['tokenize', 'repeat', 'detokenize'] as const).map(policyLoad);

export function policyLoad(name: SmallLoadName): Load {
  const load = small(name, STEADY_CONNECTIONS);
  return {
    ...load,
    title: `Policy: ${load.title.replaceAll('3', '10')}`,
    isSteady: false,
    job: (prepared) => {
      const job = load.job(prepared);
      const { source } = job;
      return source.kind === 'fresh' ? { ...job, source: { ...source, isWide: true } } : job;
    },
  };
}

const KINDS = {
  phone: { shape: 'digits', keep_last: 2 },
  mail: { shape: 'email', keep: 'domain' },
};

/** Ten fields of three kinds. */
function policy(): string {
  const fields = Object.entries(WIDE_FIELDS).flatMap(([name, kind]) => [
    [name, kind],
    [`records[*].${name}`, kind],
  ]);
  const rights = { '*': { '*': 'full' } };
  return JSON.stringify({
    version: 1,
    kinds: KINDS,
    fields: Object.fromEntries(fields),
    elsewhere: 'pass',
    rights,
  });
}

export function policyStarters({ server }: Bench): Starter[] {
  return [
    async (part) => ({ ...(await startStandin('server', server, part)), ...wide(WITHOUT_POLICY) }),
    async (part) => {
      const commands = (folder: string) => {
        writeFileSync(join(folder, 'policy.json'), policy());
        return [['policy', 'apply', 'policy.json', '--yes']];
      };
      const standin = await startStandin('server', server, part, commands);
      return { ...standin, ...wide(WITH_POLICY) };
    },
  ];
}

function wide(title: string) {
  return { title, isWide: true };
}
