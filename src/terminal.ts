/**
 * What drives a terminal, or makes a line look like another one: control characters, line and
 * paragraph separators, and what changes the direction of a text. Names from the database can have
 * it in them, as not only this program writes there.
 */
const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
/** Looked for first: a line of the log has none, and the classes above cost three times as much. */
const UNUSUAL = /[^\n -~]/;
const ALL_UNSAFE = new RegExp(UNSAFE, 'gu');
const ALL_BUT_LINE_ENDS = new RegExp(`(?!\n)${UNSAFE.source}`, 'gu');

/** One cell or one line for a terminal: `\u001b` for the escape character. */
export function shown(text: string): string {
  return text.replace(ALL_UNSAFE, escaped);
}

/** Lines for a terminal. JSON stays JSON with the same values. */
export function shownLines(text: string): string {
  return UNUSUAL.test(text) ? text.replace(ALL_BUT_LINE_ENDS, escaped) : text;
}

/** A line of JSON for a program that writes the values in it as they are. */
export function shownWhenParsed(line: string): string {
  return line.replace(ALL_BUT_LINE_ENDS, (character) => `\\${escaped(character)}`);
}

/** The first character of a text that a terminal must not get, as `U+202E`; undefined: none. */
export function unsafeCharacter(text: string): string | undefined {
  const found = UNSAFE.exec(text)?.[0];
  return found && `U+${hex(found).toUpperCase()}`;
}

function escaped(character: string): string {
  return `\\u${hex(character)}`;
}

/** All of them are in the basic plane. */
function hex(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(4, '0');
}
