/**
 * Framing of PostgreSQL's frontend protocol, version 3 (PostgreSQL documentation, chapter
 * "Frontend/Backend Protocol"). Only what the embedded server needs.
 */
const SSL_REQUEST = 80877103;
const GSS_REQUEST = 80877104;
const CANCEL_REQUEST = 80877102;
/** A client that sends a longer message is disconnected. */
const MAX_MESSAGE_BYTES = 256 * 1024 * 1024;

export type WirePart =
  /**
   * Messages with one common answer: a startup packet, a simple query, or everything up to Sync or
   * Flush.
   */
  | { readonly kind: 'group'; readonly bytes: Buffer }
  | { readonly kind: 'encryption_request' }
  | { readonly kind: 'end' };

/** Cuts the bytes of one connection into parts. Keeps the bytes of an incomplete part. */
export class Framer {
  #pending: Buffer[] = [];
  #pendingBytes = 0;
  #neededBytes = 1;
  #group: Buffer[] = [];
  #started = false;

  push(chunk: Buffer): WirePart[] {
    this.#pending.push(chunk);
    this.#pendingBytes += chunk.length;
    const parts: WirePart[] = [];
    // A large parameter comes in thousands of chunks. Join them only when the message is complete.
    if (this.#pendingBytes < this.#neededBytes) return parts;
    let bytes = this.#pending.length === 1 ? chunk : Buffer.concat(this.#pending);
    for (;;) {
      const header = this.#started ? 5 : 8;
      if (bytes.length < header) break;
      const length = this.#started ? 1 + bytes.readInt32BE(1) : bytes.readInt32BE(0);
      if (length < header || length > MAX_MESSAGE_BYTES) {
        parts.push({ kind: 'end' });
        break;
      }
      if (bytes.length < length) {
        this.#neededBytes = length;
        break;
      }
      const message = bytes.subarray(0, length);
      if (this.#started) this.#takeMessage(message, parts);
      else this.#takeStartup(message, parts);
      bytes = bytes.subarray(length);
      this.#neededBytes = 1;
    }
    this.#pending = bytes.length === 0 ? [] : [bytes];
    this.#pendingBytes = bytes.length;
    return parts;
  }

  #takeStartup(message: Buffer, parts: WirePart[]): void {
    const code = message.readInt32BE(4);
    if (code === SSL_REQUEST || code === GSS_REQUEST) parts.push({ kind: 'encryption_request' });
    else if (code === CANCEL_REQUEST) parts.push({ kind: 'end' });
    else {
      this.#started = true;
      parts.push({ kind: 'group', bytes: message });
    }
  }

  #takeMessage(message: Buffer, parts: WirePart[]): void {
    const type = String.fromCharCode(message[0]!);
    if (type === 'X') parts.push({ kind: 'end' });
    else this.#group.push(message);
    if (!'SQH'.includes(type)) return;
    parts.push({ kind: 'group', bytes: Buffer.concat(this.#group) });
    this.#group = [];
  }
}

/**
 * Whether an answer ends with ReadyForQuery outside a transaction. If so, the database is free for
 * another connection.
 */
export function leavesIdle(answer: Uint8Array): boolean {
  const n = answer.length;
  return answer[n - 6] === 0x5a && answer[n - 2] === 5 && answer[n - 1] === 0x49;
}

export function simpleQuery(text: string): Buffer {
  const message = Buffer.alloc(1 + 4 + text.length + 1);
  message.write('Q', 0);
  message.writeInt32BE(message.length - 1, 1);
  message.write(text, 5);
  return message;
}
