/**
 * A holder of up to this size may use the whole budget. Larger holders leave a quarter of it free.
 */
const SMALL_BYTES = 65_536;
const LARGE_PART = 3 / 4;
/**
 * Shares of the budget: for one client, for all requests whose client is not known yet, and for all
 * requests that wait for those before them on their connection.
 */
const CLIENT_PART = 1 / 2;
const UNKNOWN_PART = 1 / 8;
const AHEAD_PART = 1 / 8;
const TICK_MS = 100;
/**
 * When the budget is short, a holder is cut off if its caller has been idle for this long (1 s or
 * more). The wait is counted in event-loop ticks, because after a busy second every caller would
 * look idle.
 */
export const STALLED_AFTER_TICKS = 10;

/** The holders of one client. */
interface Share {
  bytes: number;
  readonly limit: number;
}

/** The bytes of one request. */
export interface Reservation {
  readonly share: Share;
  bytes: number;
  /**
   * The tick in which the caller last sent or received bytes. Meaningful only while the holder
   * waits.
   */
  movedAt: number;
  /** Cuts the caller off; undefined: the holder does not wait for its caller. */
  evict: (() => void) | undefined;
}

/**
 * Bounds the bytes of all work in a process: bodies, values, answers and audit lines. When the
 * budget is short, holders that wait for an idle caller lose their bytes first, the longest wait
 * first. If that frees too little, the new request is refused.
 * The only holder of a client, or of the process, is never refused: other limits bound its size.
 */
export class ByteBudget {
  readonly bytes: number;
  held = 0;
  readonly #onCut: () => void;
  readonly #byClient = new Map<string, Share>();
  readonly #unknown: Share;
  readonly #ahead: Share;
  /** Holders that wait for their callers, the longest wait first. */
  readonly #waiting = new Set<Reservation>();
  #counted = 0;
  #tick = 0;
  #timer: NodeJS.Timeout | undefined;

  /** @param onCut called for every holder that is cut off */
  constructor(bytes: number, onCut: () => void) {
    this.bytes = bytes;
    this.#onCut = onCut;
    this.#unknown = { bytes: 0, limit: bytes * UNKNOWN_PART };
    this.#ahead = { bytes: 0, limit: bytes * AHEAD_PART };
  }

  start(): void {
    this.#timer = setInterval(() => this.tick(), TICK_MS).unref();
  }

  stop(): void {
    clearInterval(this.#timer);
  }

  /** Marks a turn of the event loop, in which every caller had a chance to act. */
  tick(): void {
    this.#tick++;
  }

  /** 0 when nothing is under way: whatever a request ended by gives its bytes back. */
  get heldByRequests(): number {
    return this.held - this.#counted;
  }

  /** The most bytes that one large holder can get while others hold some. */
  get largest(): number {
    return Math.floor(this.bytes * CLIENT_PART * LARGE_PART);
  }

  /** @param clientId undefined: not known yet */
  open(clientId: string | undefined): Reservation {
    return holderOf(clientId === undefined ? this.#unknown : this.#shareOf(clientId));
  }

  /** A holder for the requests that a connection sends ahead of its answers. */
  openAhead(): Reservation {
    return holderOf(this.#ahead);
  }

  /**
   * Whether the budget grants this many more bytes now. May cut stalled holders off to make room.
   */
  hasRoom(holder: Reservation, bytes: number): boolean {
    return this.#fits(holder, bytes) || this.#makeRoom(holder, bytes);
  }

  /** Takes this many more bytes. Returns false, and takes nothing, when there is no room. */
  reserve(holder: Reservation, bytes: number): boolean {
    if (!this.hasRoom(holder, bytes)) return false;
    this.#add(holder, bytes);
    return true;
  }

  /** Lowers what the holder holds, and ends its wait for the caller. */
  shrinkTo(holder: Reservation, bytes: number): void {
    this.resume(holder);
    this.#add(holder, bytes - holder.bytes);
  }

  /** Starts a wait for the caller, which has just sent or received bytes. */
  wait(holder: Reservation, cut: () => void): void {
    this.#waiting.delete(holder);
    this.#waiting.add(holder);
    holder.movedAt = this.#tick;
    holder.evict = cut;
  }

  /** Restarts the wait, because the caller has received bytes. */
  move(holder: Reservation): void {
    if (holder.evict !== undefined) this.wait(holder, holder.evict);
  }

  /** Ends the wait for the caller. */
  resume(holder: Reservation): void {
    if (holder.evict === undefined) return;
    holder.evict = undefined;
    this.#waiting.delete(holder);
  }

  /** Counts bytes that belong to no client and have their own bound. */
  count(bytes: number): void {
    this.#counted += bytes;
    this.held += bytes;
  }

  #shareOf(clientId: string): Share {
    let share = this.#byClient.get(clientId);
    if (share === undefined) {
      share = { bytes: 0, limit: this.bytes * CLIENT_PART };
      this.#byClient.set(clientId, share);
    }
    return share;
  }

  #add(holder: Reservation, bytes: number): void {
    holder.bytes += bytes;
    holder.share.bytes += bytes;
    this.held += bytes;
  }

  #fits(holder: Reservation, bytes: number): boolean {
    const part = partOf(holder, bytes);
    const fitsAll = this.held + bytes <= part * this.bytes || this.held === holder.bytes;
    return fitsAll && fitsShare(holder, bytes);
  }

  #makeRoom(holder: Reservation, bytes: number): boolean {
    const isShareFull = !fitsShare(holder, bytes);
    for (const stalled of this.#waiting) {
      if (this.#tick - stalled.movedAt < STALLED_AFTER_TICKS) return false;
      if (stalled === holder) continue;
      // When the client's own share is full, bytes of other clients do not help.
      if (isShareFull && stalled.share !== holder.share) continue;
      const { evict: cut } = stalled;
      this.shrinkTo(stalled, 0);
      this.#onCut();
      cut!();
      if (this.#fits(holder, bytes)) return true;
    }
    return false;
  }
}

function holderOf(share: Share): Reservation {
  return { share, bytes: 0, movedAt: 0, evict: undefined };
}

function partOf(holder: Reservation, bytes: number): number {
  return holder.bytes + bytes <= SMALL_BYTES ? 1 : LARGE_PART;
}

function fitsShare(holder: Reservation, bytes: number): boolean {
  const { share } = holder;
  const limit = partOf(holder, bytes) * share.limit;
  return share.bytes + bytes <= limit || share.bytes === holder.bytes;
}
