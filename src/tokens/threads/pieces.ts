import { type Question, withMarks } from './messages.ts';

/** A call with more texts or bytes is a piece of a large call, and takes at least 0.5 ms. */
const MAX_SMALL_TEXTS = 64;
const MAX_SMALL_BYTES = 262_144;

export function isPiece(texts: number, bytes: number): boolean {
  return texts > MAX_SMALL_TEXTS || bytes > MAX_SMALL_BYTES;
}

/** Cryptography takes about 10 us a text, so a small call waits at most 2.5 ms for a piece. */
const PIECE_TEXTS = 250;
/** Each thread works on eight pieces at once, each in memory as bytes, text and message. */
const PIECE_BYTES = 1_048_576;

/** The question about the texts at these indexes. */
export function withTexts(question: Question, indexes: readonly number[]): Question {
  const { view } = question;
  const texts = indexes.map((i) => question.texts[i]!);
  const ofTexts = view && withMarks(view, indexes.map((i) => view.marks[i]).join(''));
  return { ...question, texts, view: ofTexts };
}

/** A large question in pieces, with the bytes of each. */
export function piecesOf(
  question: Question,
  weigh: (text: string) => number,
): (readonly [piece: Question, bytes: number])[] {
  const pieces: (readonly [Question, number])[] = [];
  let indexes: number[] = [];
  let bytes = 0;
  const end = () => {
    pieces.push([withTexts(question, indexes), bytes]);
    indexes = [];
    bytes = 0;
  };
  question.texts.forEach((text, i) => {
    const weight = weigh(text);
    const isFull = indexes.length === PIECE_TEXTS || bytes + weight > PIECE_BYTES;
    if (isFull && indexes.length > 0) end();
    indexes.push(i);
    bytes += weight;
  });
  end();
  return pieces;
}
