/**
 * Offsets of a text in code points, as most languages and finders of personal data count them, and
 * in UTF-16 units, as JavaScript does.
 */
export class TextOffsets {
  /** Number of code points. */
  readonly length: number;
  /** The unit where each code point begins, and the end; undefined: each has one unit. */
  readonly #units: Uint32Array | undefined;

  constructor(text: string) {
    if (!SURROGATE.test(text)) {
      this.length = text.length;
      return;
    }
    const units = new Uint32Array(text.length + 1);
    let length = 0;
    for (let unit = 0; unit < text.length; unit += text.codePointAt(unit)! > 0xffff ? 2 : 1)
      units[length++] = unit;
    units[length] = text.length;
    this.length = length;
    this.#units = units.subarray(0, length + 1);
  }

  /** Whether something that a service or caller sent is an offset in code points. */
  has(json: unknown): json is number {
    return Number.isInteger(json) && (json as number) >= 0 && (json as number) <= this.length;
  }

  /** @param point 0 to `length` */
  unitOf(point: number): number {
    return this.#units === undefined ? point : this.#units[point]!;
  }

  /** @param unit where a code point begins or the text ends */
  pointOf(unit: number): number {
    const units = this.#units;
    if (units === undefined) return unit;
    let low = 0;
    for (let high = this.length; low < high; ) {
      const middle = (low + high) >> 1;
      if (units[middle]! < unit) low = middle + 1;
      else high = middle;
    }
    return low;
  }
}

const SURROGATE = /[\ud800-\udfff]/;
