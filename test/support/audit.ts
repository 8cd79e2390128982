import { existsSync, readdirSync, readFileSync, readlinkSync } from 'node:fs';
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
  const paths = readdirSync('/proc/self/fd').map((fd) => {
    try {
      return readlinkSync(`/proc/self/fd/${fd}`);
    } catch {
      return '';
    }
  });
  return paths.filter((path) => path.startsWith(`${folder}/`));
}

/** Concurrent calls of both operations without a pause, until stopped. */
export class AuditedLoad {
  readonly answers: Answer[] = [];
  readonly #service: Service;
  readonly #callers: Promise<void>[];
  #isOver = false;

  constructor(service: Service, callers = 8) {
    this.#service = service;
    this.#callers = Array.from({ length: callers }, (_, i) => this.#call(i));
  }

  /** Resolves after `count` more answers. */
  async progress(count: number): Promise<void> {
    const goal = this.answers.length + count;
    await until(() => this.answers.length >= goal, `${count} more answers`);
  }

  async stop(): Promise<Answer[]> {
    this.#isOver = true;
    await Promise.all(this.#callers);
    return this.answers;
  }

  async #call(caller: number): Promise<void> {
    for (let n = 0; !this.#isOver; n++) {
      const value = `caller ${caller} ${n}`;
      const tokenized = await call(this.#service, 'tokenize', { a: value });
      this.answers.push(tokenized);
      if (tokenized.status !== 200) continue;
      this.answers.push(await call(this.#service, 'detokenize', tokenized.body.data));
    }
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
