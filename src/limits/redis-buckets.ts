import { type CommandParser, createClient, defineScript, ErrorReply } from '@redis/client';
import { errorCode } from '../errors.ts';
import {
  type Bucket,
  type Grant,
  KNOWN_FOR_ONE,
  MAX_IDLE_MS,
  NO_OUTCOME,
  type Outcome,
  TRUSTED_PART,
} from './buckets.ts';

/**
 * The client reconnects when Redis does not accept a connection, or stays silent on it, for this
 * long.
 */
const CONNECT_TIMEOUT_MS = 2_000;
const SILENCE_TIMEOUT_MS = 3_000;
const MAX_RECONNECT_DELAY_MS = 1_000;
/** When an answer is this late, nothing more is sent: see `charge`. */
const MAX_DEBT_MS = 1_000;

const KEY_PREFIX = 'standin:limit:';

/**
 * The rules of MemoryBuckets.charge, in microseconds of the Redis clock, or of ARGV[1] if not ''.
 * The stored value is a time and how far after it the bucket is full again. Their sum would lose
 * digits in a double, and a clock set back would lock clients out.
 * Keys live a minute longer than needed, because the clock of a replica that takes over may be
 * ahead. A read (count 0) writes, too, so that it fails on a Redis that accepts no writes.
 */
const CHARGE = `
local now = tonumber(ARGV[1])
if not now then
  local time = redis.call('TIME')
  now = time[1] * 1000000 + time[2]
end
local rate, count = tonumber(ARGV[2]), tonumber(ARGV[3])
local budget = ARGV[5] ~= nil
local ended, known = tonumber(ARGV[5] or 0), tonumber(ARGV[6] or 0)
local unknown, guessed = tonumber(ARGV[7] or 0), tonumber(ARGV[8] or 0)
local interval = 1000000 / rate
local whole = math.max(1000000 * tonumber(ARGV[4]), interval)
local rounding = 0.001
local function within(time, passed, most)
  return math.max(0, math.min((tonumber(time) or 0) - passed, most))
end
local ahead, earned, earning = 0, 0, 0
local at, level, has, gain =
  string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%S+) ?(%S*) ?(%S*)$')
if at then
  local passed = math.max(0, now - at)
  ahead = within(level, passed, budget and 2 * whole or whole)
  earning = within(gain, passed, whole)
  if passed <= ${MAX_IDLE_MS * 1_000} then earned = within(has, 0, whole) end
end
local more = math.min(known * interval / ${KNOWN_FOR_ONE}, whole - earning, whole - earned)
earned = earned + more
earning = earning + more
local trusted = whole / ${TRUSTED_PART} - rounding
local cost = (earned >= trusted and unknown or guessed) * interval
ahead = math.max(0, ahead - ended * interval) + cost
if earned >= trusted then
  local paid = math.max(0, math.min(cost, earned, ahead - whole))
  earned = earned - paid
  ahead = ahead - paid
end
ahead = math.min(ahead, 2 * whole)
local spare = earned >= trusted and earned or 0
local left = whole + spare + rounding - ahead
local room = math.floor(left / interval)
local granted = math.max(0, math.min(count, room))
local wait = interval + granted * interval - left
ahead = ahead + granted * interval
local state = string.format('%.0f %.17g', now, ahead)
local lifetime = math.ceil(math.max(ahead, earning) / 1000) + 60000
if budget then
  state = state .. string.format(' %.17g %.17g', earned, earning)
  lifetime = math.max(lifetime, ${MAX_IDLE_MS})
end
redis.call('SET', KEYS[1], state, 'PX', lifetime)
return {granted, room - granted, math.max(0, math.ceil(wait / 1000000))}
`;

const charge = defineScript({
  SCRIPT: CHARGE,
  NUMBER_OF_KEYS: 1,
  parseCommand(
    parser: CommandParser,
    { name, rate, burstS, isBudget }: Bucket,
    count: number,
    { ended, known, unknown, guessed }: Outcome,
    nowUs: number | '',
  ) {
    parser.pushKey(KEY_PREFIX + name);
    parser.push(...[nowUs, rate, count, burstS].map(String));
    // Without a password, Redis says NOAUTH only to a short call.
    if (isBudget) parser.push(...[ended, known, unknown, guessed].map(String));
  },
  transformReply: (reply: unknown) => reply,
});

/** Of a client that reconnects for ever, and whose calls fail at once while it is disconnected. */
export function redisOptions(url: string) {
  return {
    url,
    disableOfflineQueue: true,
    disableClientInfo: true,
    maintNotifications: 'disabled',
    socket: {
      connectTimeout: CONNECT_TIMEOUT_MS,
      socketTimeout: SILENCE_TIMEOUT_MS,
      reconnectStrategy: (retries: number) =>
        Math.min(50 * 2 ** retries, MAX_RECONNECT_DELAY_MS) * (0.5 + Math.random() / 2),
    },
  } as const;
}

/**
 * Buckets in Redis or Valkey. The client reconnects for ever; while it is disconnected, calls fail
 * at once.
 */
export class RedisBuckets {
  /** The last failure: a code or a name, never a message, which could contain an address. */
  failure: string | undefined;
  readonly #client;
  #unanswered = 0;
  #inDebtSinceMs = Infinity;

  private constructor(url: string) {
    this.#client = createClient({ ...redisOptions(url), scripts: { charge } });
    this.#client.on('error', (error) => {
      this.failure = failureName(error);
    });
    this.#client.on('ready', () => {
      this.failure = undefined;
    });
  }

  /** Resolves when Redis answers, or when the first attempt fails (see `failure`). */
  static async open(url: string): Promise<RedisBuckets> {
    const buckets = new RedisBuckets(url);
    await new Promise<void>((resolve) => {
      buckets.#client.once('ready', resolve);
      buckets.#client.once('error', () => resolve());
      // Rejects only when the client is closed before it has connected.
      buckets.#client.connect().catch(() => resolve());
    });
    return buckets;
  }

  /**
   * Stops writing to a connection that gives no answers. Only a quiet connection reaches its
   * time-out and is replaced, and requests would only pile up in front of a Redis that hangs.
   * @param nowUs for tests; by default the clock of Redis
   */
  async charge(
    bucket: Bucket,
    count: number,
    outcome = NO_OUTCOME,
    nowUs: number | '' = '',
  ): Promise<Grant> {
    if (performance.now() - this.#inDebtSinceMs > MAX_DEBT_MS) throw new Error('no answer');
    if (this.#unanswered++ === 0) this.#inDebtSinceMs = performance.now();
    try {
      const grant = grantOf(await this.#client.charge(bucket, count, outcome, nowUs));
      this.failure = undefined;
      return grant;
    } catch (error) {
      // The client reports a lost connection itself, with a better code than its calls give.
      if (error instanceof ErrorReply) this.failure = failureName(error);
      throw error;
    } finally {
      this.#inDebtSinceMs = --this.#unanswered === 0 ? Infinity : performance.now();
    }
  }

  close(): void {
    if (this.#client.isOpen) this.#client.destroy();
  }
}

function grantOf(reply: unknown): Grant {
  const [granted, left, retryAfterS] = Array.isArray(reply) ? reply : [];
  if (![granted, left, retryAfterS].every(Number.isInteger))
    throw new Error('not an answer of the script');
  return { granted, left, retryAfterS };
}

/** The first word of an error reply is its code. */
function failureName(error: unknown): string {
  if (error instanceof ErrorReply) return /^[A-Z]+(?= )/.exec(error.message)?.[0] ?? 'ERR';
  return errorCode(error) ?? (error instanceof Error ? error.constructor.name : typeof error);
}
