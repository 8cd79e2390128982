import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { type Loop, loop } from './loop.ts';
import { linkOf } from './processes.ts';
import { type Answer, call, type Place, runCli, type Service, until } from './service.ts';

const LINK =
  /(,"file":"[^"]*","size":\d+,"after":"[^"]*")?,"chain":"\w+","seq":\d+,"mac":"[\w-]+"\}$/;

/** A line as it was before it got its link. */
export function withoutLink(line: string): string {
  return line.replace(LINK, '}');
}

/** The content of audit log files: complete lines without links, and parts of lines. */
export function readAudit(...files: readonly string[]): { lines: any[]; torn: string[] } {
  const lines: any[] = [];
  const torn: string[] = [];
  for (const file of files) {
    if (!existsSync(file)) continue;
    const text = readFileSync(file, 'utf8');
    for (const line of text.split('\n').filter((one) => one !== '')) {
      const isWhole = line.startsWith('{') && line.endsWith('}');
      if (isWhole) lines.push(JSON.parse(withoutLink(line)));
      else torn.push(line);
    }
  }
  return { lines, torn };
}

/** Files of a folder that this process has open, also removed ones. */
export function openIn(folder: string): string[] {
  const paths = readdirSync('/proc/self/fd').map((fd) => linkOf(`/proc/self/fd/${fd}`));
  return paths.filter((path) => path.startsWith(`${folder}/`));
}

/** Concurrent calls of both operations without a pause, until stopped. */
export class AuditedLoad {
  readonly answers: Answer[] = [];
  readonly #callers: Loop;

  constructor(service: Service, callers = 8) {
    this.#callers = loop(async (n, caller) => {
      const tokenized = await call(service, 'tokenize', { a: `caller ${caller} ${n}` });
      this.answers.push(tokenized);
      if (tokenized.status === 200)
        this.answers.push(await call(service, 'detokenize', tokenized.body.data));
    }, callers);
  }

  /** Resolves after `count` more answers. */
  async progress(count: number): Promise<void> {
    const goal = this.answers.length + count;
    await until(() => this.answers.length >= goal, `${count} more answers`);
  }

  async stop(): Promise<Answer[]> {
    await this.#callers.stop();
    return this.answers;
  }
}

/** The request ids of the answers, which their audit lines contain too. */
export function idsOf(answers: readonly Answer[], status?: number): string[] {
  return answers
    .filter((answer) => status === undefined || answer.status === status)
    .map(({ headers }) => headers.get('x-request-id')!)
    .toSorted();
}

/** What `standin audit verify` finds, and its exit code. */
export async function verifyAudit(place: Place, ...words: readonly string[]) {
  const { code, stdout, stderr } = await runCli(['audit', 'verify', '--json', ...words], place);
  return { code, stderr, result: stdout === '' ? undefined : JSON.parse(stdout) };
}
