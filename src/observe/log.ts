import { type Logger, pino } from 'pino';
import { errorCode, operatorError } from '../errors.ts';
import { count, hasColours, painted, shown, shownLines, shownWhenParsed } from '../terminal.ts';
import { LogOutput } from './log-output.ts';

export interface Log extends Pick<Logger, 'info' | 'warn' | 'error' | 'debug'> {
  /** Writes the line of an answered request, as `info` would, at half the cost. */
  request(line: RequestLine, durationMs: number): void;
  readonly output: Pick<LogOutput, 'countWaiting' | 'dropped' | 'end'>;
}

/** The logged fields of a request. */
interface RequestLine {
  readonly request_id: string;
  /** Ids that the caller sent, of characters that need no escaping. */
  readonly correlation: Readonly<Record<string, string>>;
  /** The same object for all requests with one API key; null: the request had no valid API key. */
  readonly caller: LoggedCaller | null;
  /** A method that Node's parser knows, so it needs no escaping. */
  readonly method: string;
  readonly route: string;
  readonly status: number;
  readonly values: number;
  /** What is wrong with the credential, in words of ours that need no escaping. */
  readonly why: string | undefined;
}

interface LoggedCaller {
  readonly client: { readonly client_id: string };
  readonly api_key_id: string | undefined;
}

export function isPretty(format: 'auto' | 'json' | 'pretty'): boolean {
  return format === 'pretty' || (format === 'auto' && process.stdout.isTTY === true);
}

/**
 * JSON lines on standard output. The log has only the fields that a call names: no request, body,
 * header or error object. So no redaction is needed.
 */
export async function openLog(level: string, isForReaders: boolean): Promise<Log> {
  const output = new LogOutput((lines) =>
    logger.warn({ lines }, 'standard output did not take lines of the log: they were dropped'),
  );
  const textOf = isForReaders ? await prettyText() : shownLines;
  const requestOf = isForReaders ? requestForPeople : requestText;
  const logger = pino(
    {
      level,
      base: null,
      timestamp: pino.stdTimeFunctions.isoTime,
      formatters: { level: (name) => ({ level: name }) },
    },
    { write: (line) => output.write(textOf(line)) },
  );
  const hasRequests = logger.isLevelEnabled('info');
  const request = (line: RequestLine, durationMs: number) => {
    if (hasRequests) output.write(requestOf(line, durationMs));
  };
  return Object.assign(logger, { request, output });
}

let last = { atMs: 0, text: '' };

/** To make the text of a time costs 0.6 us, so requests of one millisecond share it. */
function timeNow(): string {
  const atMs = Date.now();
  if (atMs !== last.atMs) last = { atMs, text: new Date(atMs).toISOString() };
  return last.text;
}

const callerTexts = new WeakMap<LoggedCaller, string>();

/** Only the ids of the caller can contain characters that JSON must escape. */
function requestText(line: RequestLine, durationMs: number): string {
  let who = '';
  for (const name in line.correlation) who += `"${name}":"${line.correlation[name]}",`;
  who += textOfCaller(line.caller);
  const what = `"method":"${line.method}","route":"${line.route}","status":${line.status}`;
  const why = line.why === undefined ? '' : `,"why":"${line.why}"`;
  return (
    `{"level":"info","time":"${timeNow()}","request_id":"${line.request_id}",` +
    `${who}${what},"values":${line.values},"duration_ms":${durationMs}${why}}\n`
  );
}

function textOfCaller(caller: LoggedCaller | null): string {
  if (caller === null) return '';
  const known = callerTexts.get(caller);
  if (known !== undefined) return known;
  const ids = { client_id: caller.client.client_id, api_key_id: caller.api_key_id };
  const text = shownLines(`${JSON.stringify(ids).slice(1, -1)},`);
  callerTexts.set(caller, text);
  return text;
}

/** One line, so that a terminal shows many requests. */
function requestForPeople(line: RequestLine, durationMs: number): string {
  const { caller, method, route, status, values, why } = line;
  const time = new Date().toTimeString().slice(0, 8);
  const colour = status < 400 ? 'green' : status < 500 ? 'yellow' : 'red';
  const parts = [
    `${method} ${route}`,
    painted(colour, why === undefined ? String(status) : `${status} ${why}`),
    count(values, 'value'),
    `${durationMs} ms`,
    painted('dim', `${shown(caller?.client.client_id ?? '-')} ${line.request_id}`),
  ];
  return `[${time}] ${parts.join('  ')}\n`;
}

async function prettyText(): Promise<(line: string) => string> {
  const { prettyFactory } = await import('pino-pretty');
  const pretty = prettyFactory({ colorize: hasColours(), translateTime: 'SYS:HH:MM:ss' });
  return (line) => pretty(shownWhenParsed(line));
}

/** A half-working process is worse than none: the supervisor starts a new one. */
export function endOnUncaught(log: Log): void {
  process.on('uncaughtException', (error) => {
    log.error(failureFields(error), 'unexpected failure, ending');
    log.output.end(1);
  });
}

/**
 * The fields of a failure that a log may show: names, codes and places in the program. Messages of
 * libraries can contain values, SQL or key material.
 */
export function failureFields(error: unknown): Record<string, string> {
  if (!(error instanceof Error)) return { error: typeof error };
  const fields: Record<string, string> = { error: error.constructor.name, at: frames(error) };
  const code = errorCode(error) ?? errorCode(error.cause);
  if (code !== undefined) fields.code = code;
  if (error.cause instanceof Error) fields.cause = error.cause.constructor.name;
  return fields;
}

/** The fields of a failure that an operator may be able to fix, in words. */
export function problemFields(problem: unknown) {
  const code = errorCode(problem) ?? errorCode((problem as Error).cause);
  return { problems: operatorError(problem)?.problems, code };
}

const MAX_FRAMES = 6;

/** The stack without the message, which can have several lines. */
function frames(error: Error): string {
  const stack = (error.stack ?? '').slice(String(error).length);
  return stack
    .split('\n')
    .map((line) => line.trim())
    .filter((line) => line.startsWith('at '))
    .slice(0, MAX_FRAMES)
    .join(' | ');
}
