/** A holder of up to this much may use the whole budget; larger ones leave a quarter of it free. */
export const SMALL_BYTES = 65_536;
const LARGE_PART = 3 / 4;
/** Of the budget: what one client may hold, and all requests together whose client is not known. */
const CLIENT_PART = 1 / 2;
const UNKNOWN_PART = 1 / 8;
const TICK_MS = 100;
/**
 * A holder whose caller did nothing for so long, a second or more, is cut off when the budget is
 * short. Counted in ticks of the event loop: to a process that is busy for a second, all its
 * callers would seem to have done nothing.
 */
export const STALLED_AFTER_TICKS = 10;

/** All holders of one client together. */
interface Share {
  bytes: number;
  readonly limit: number;
}

/** What one request holds. */
export interface Holder {
  readonly share: Share;
  bytes: number;
  /** The tick in which its caller last sent or took something; only while it is waited for. */
  movedAt: number;
  /** Cuts the caller off; undefined: the holder does not wait for its caller. */
  cut: (() => void) | undefined;
}

/**
 * One budget of bytes for what is under way in a process: bodies, values, answers and lines of the
 * audit log. When the budget is short, whoever waits for a caller that does nothing loses its bytes
 * first, the longest wait first. Otherwise the new request is refused.
 *
 * The only holder of a client, or of the process, is never refused: its size has limits of its own.
 */
export class ByteBudget {
  readonly bytes: number;
  readonly #onCut: () => void;
  readonly #byClient = new Map<string, Share>();
  readonly #unknown: Share;
  /** Those that wait for their callers, the longest wait first. */
  readonly #waiting = new Set<Holder>();
  #held = 0;
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param onCut told of every holder that is cut off */
  constructor(bytes: number, onCut: () => void) {
    this.bytes = bytes;
    this.#onCut = onCut;
    this.#unknown = { bytes: 0, limit: bytes * UNKNOWN_PART };
  }

  start(): void {
    this.#timer = setInterval(() => this.tick(), TICK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** The event loop has had time for all callers. */
  tick(): void {
    this.#tick++;
  }

  get held(): number {
    return this.#held;
  }

  /** What one large holder can have beside others. */
  get largest(): number {
    return Math.floor(this.bytes * CLIENT_PART * LARGE_PART);
  }

  /** @param clientId undefined: not known yet */
  open(clientId: string | undefined): Holder {
    const share = clientId === undefined ? this.#unknown : this.#shareOf(clientId);
    return { share, bytes: 0, movedAt: 0, cut: undefined };
  }

  /** Whether so many more bytes would be granted now; cuts stalled holders off for it. */
  hasRoom(holder: Holder, bytes: number): boolean {
    return this.#fits(holder, bytes) || this.#makeRoom(holder, bytes);
  }

  /** Takes so many more bytes. false: there is no room, and nothing was taken. */
  grow(holder: Holder, bytes: number): boolean {
    if (!this.hasRoom(holder, bytes)) return false;
    this.#add(holder, bytes);
    return true;
  }

  /** Has the holder hold less, or nothing. It waits for its caller no longer. */
  settle(holder: Holder, bytes: number): void {
    this.goOn(holder);
    this.#add(holder, bytes - holder.bytes);
  }

  /** The holder waits for its caller, who has just sent or taken something. */
  wait(holder: Holder, cut: () => void): void {
    this.#waiting.delete(holder);
    this.#waiting.add(holder);
    holder.movedAt = this.#tick;
    holder.cut = cut;
  }

  /** The caller that a holder waits for has taken something. */
  move(holder: Holder): void {
    if (holder.cut !== undefined) this.wait(holder, holder.cut);
  }

  /** The holder waits for its caller no longer. */
  goOn(holder: Holder): void {
    if (holder.cut === undefined) return;
    holder.cut = undefined;
    this.#waiting.delete(holder);
  }

  /** Counts bytes that belong to no client, and that have a bound of their own. */
  count(bytes: number): void {
    this.#held += bytes;
  }

  #shareOf(clientId: string): Share {
    let share = this.#byClient.get(clientId);
    if (share === undefined) {
      share = { bytes: 0, limit: this.bytes * CLIENT_PART };
      this.#byClient.set(clientId, share);
    }
    return share;
  }

  #add(holder: Holder, bytes: number): void {
    holder.bytes += bytes;
    holder.share.bytes += bytes;
    this.#held += bytes;
  }

  #fits(holder: Holder, bytes: number): boolean {
    const part = partOf(holder, bytes);
    const fitsAll = this.#held + bytes <= part * this.bytes || this.#held === holder.bytes;
    return fitsAll && fitsShare(holder, bytes);
  }

  #makeRoom(holder: Holder, bytes: number): boolean {
    const isShareFull = !fitsShare(holder, bytes);
    for (const stalled of this.#waiting) {
      if (this.#tick - stalled.movedAt < STALLED_AFTER_TICKS) return false;
      if (stalled === holder) continue;
      // Where its client has too much, what others hold is of no use.
      if (isShareFull && stalled.share !== holder.share) continue;
      const { cut } = stalled;
      this.settle(stalled, 0);
      this.#onCut();
      cut!();
      if (this.#fits(holder, bytes)) return true;
    }
    return false;
  }
}

function partOf(holder: Holder, bytes: number): number {
  return holder.bytes + bytes <= SMALL_BYTES ? 1 : LARGE_PART;
}

function fitsShare(holder: Holder, bytes: number): boolean {
  const { share } = holder;
  const limit = partOf(holder, bytes) * share.limit;
  return share.bytes + bytes <= limit || share.bytes === holder.bytes;
}
