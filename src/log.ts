import { type DestinationStream, type Logger, pino } from 'pino';
import { errorCode } from './store/failure.ts';
import { shownLines, shownWhenParsed } from './terminal.ts';

export interface Log extends Pick<Logger, 'info' | 'warn' | 'error' | 'debug' | 'flush'> {
  /** The line of an answered request: as `info` writes it, at half the cost. */
  request(line: RequestLine): void;
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
  const output = options.is_pretty
    ? await prettyOutput()
    : jsonOutput(options.worker !== undefined);
  const logger = pino(
    {
      level: options.level,
      base: options.worker === undefined ? null : { worker: options.worker },
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (level) => ({ level }) },
    },
    output,
  );
  const has_requests = logger.isLevelEnabled('info');
  const worker = options.worker === undefined ? '' : `"worker":${options.worker},`;
  return Object.assign(logger, {
    request(line: RequestLine): void {
      if (!has_requests) return;
      const rest = JSON.stringify(line).slice(1);
      output.write(`{"level":"info","time":"${new Date().toISOString()}",${worker}${rest}\n`);
    },
  });
}

/** How long a line may wait for others, so that they share a write. */
const FLUSH_INTERVAL_MS = 20;
const CHUNK_BYTES = 8_192;
/** PIPE_BUF of Linux: writes of several processes to one pipe are whole up to this size only. */
const WHOLE_WRITE_BYTES = 4_096;

/** Lines are gathered here: pino's destination measures all that it holds again for every line. */
function jsonOutput(is_shared: boolean): DestinationStream {
  const chunk_bytes = is_shared ? WHOLE_WRITE_BYTES : CHUNK_BYTES;
  const output = pino.destination({ fd: 1, sync: false, maxWrite: chunk_bytes });
  let chunk = '';
  let bytes = 0;
  let is_flush_due = false;
  const pass = () => {
    if (bytes > 0) output.write(chunk);
    chunk = '';
    bytes = 0;
  };
  const flush = () => {
    is_flush_due = false;
    pass();
  };
  return {
    write(text: string) {
      const line = shownLines(text);
      const line_bytes = Buffer.byteLength(line);
      if (bytes + line_bytes > chunk_bytes) pass();
      chunk += line;
      bytes += line_bytes;
      if (is_flush_due) return;
      is_flush_due = true;
      setTimeout(flush, FLUSH_INTERVAL_MS);
    },
    flush(callback: () => void) {
      pass();
      output.flush(callback);
    },
  } as DestinationStream;
}

async function prettyOutput(): Promise<DestinationStream> {
  const { default: pretty } = await import('pino-pretty');
  const output = pretty({ colorize: true, sync: true, translateTime: 'SYS:HH:MM:ss' });
  return { write: (line) => output.write(shownWhenParsed(line)) };
}

/** Half alive is worse than dead: the supervisor starts a whole one. */
export function endOnUncaught(log: Log): void {
  process.on('uncaughtException', (error) => {
    log.error(failureFields(error), 'unexpected failure, ending');
    log.flush(() => process.exit(1));
    setTimeout(() => process.exit(1), 500);
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
