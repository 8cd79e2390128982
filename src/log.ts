import { type Logger, pino } from 'pino';
import { errorCode } from './errors.ts';
import { LogOutput } from './log-output.ts';
import { shownLines, shownWhenParsed } from './terminal.ts';

export interface Log extends Pick<Logger, 'info' | 'warn' | 'error' | 'debug'> {
  /** The line of an answered request: as `info` writes it, at half the cost. */
  request(line: RequestLine): void;
  /** Lines that standard output did not take. */
  dropped(): number;
  /** Ends the process, after the lines so far where standard output takes them. */
  end(exit_code: number): void;
}

/** What is logged of a request. */
export interface RequestLine {
  readonly request_id: string;
  readonly client_id: string | undefined;
  readonly api_key_id: string | undefined;
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly values: number;
  readonly duration_ms: number;
}

export interface LogOptions {
  readonly level: string;
  readonly is_pretty: boolean;
  /** Number of the worker that writes the lines; undefined: there is one process. */
  readonly worker?: number;
}

export function isPretty(format: 'auto' | 'json' | 'pretty'): boolean {
  return format === 'pretty' || (format === 'auto' && process.stdout.isTTY === true);
}

/**
 * JSON lines on standard output. Only what a call names is logged: never a request, a body, a
 * header or an error object, so nothing has to be taken out again.
 */
export async function openLog(options: LogOptions): Promise<Log> {
  const output = new LogOutput((lines) =>
    logger.warn({ lines }, 'standard output did not take lines of the log: they were dropped'),
  );
  const textOf = options.is_pretty ? await prettyText() : shownLines;
  const logger = pino(
    {
      level: options.level,
      base: options.worker === undefined ? null : { worker: options.worker },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
    },
    { write: (line) => output.write(textOf(line)) },
  );
  const has_requests = logger.isLevelEnabled('info');
  const worker = options.worker === undefined ? '' : `"worker":${options.worker},`;
  return Object.assign(logger, {
    request(line: RequestLine): void {
      if (!has_requests) return;
      const rest = JSON.stringify(line).slice(1);
      const text = `{"level":"info","time":"${new Date().toISOString()}",${worker}${rest}\n`;
      output.write(textOf(text));
    },
    dropped: () => output.dropped,
    end: (exit_code: number) => output.end(exit_code),
  });
}

async function prettyText(): Promise<(line: string) => string> {
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({ colorize: true, translateTime: 'SYS:HH:MM:ss' });
  return (line) => pretty(shownWhenParsed(line));
}

/** Half alive is worse than dead: the supervisor starts a whole one. */
export function endOnUncaught(log: Log): void {
  process.on('uncaughtException', (error) => {
    log.error(failureFields(error), 'unexpected failure, ending');
    log.end(1);
  });
}

/**
 * What a log may tell of a failure: names, codes and places in the program. Messages of libraries
 * can carry values, SQL or key material.
 */
export function failureFields(error: unknown): Record<string, string> {
  if (!(error instanceof Error)) return { error: typeof error };
  const fields: Record<string, string> = { error: error.constructor.name, at: frames(error) };
  const code = errorCode(error) ?? errorCode(error.cause);
  if (code !== undefined) fields.code = code;
  if (error.cause instanceof Error) fields.cause = error.cause.constructor.name;
  return fields;
}

const MAX_FRAMES = 6;

/** The stack without its first lines, which are the message. */
function frames(error: Error): string {
  const stack = (error.stack ?? '').slice(String(error).length);
  return stack
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at '))
    .slice(0, MAX_FRAMES)
    .join(' | ');
}
