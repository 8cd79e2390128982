import { styleText } from 'node:util';

/**
 * Characters that control a terminal or disguise a line: control characters, line and paragraph
 * separators, and changes of the text direction. Names from the database can contain them, because
 * other programs can write there.
 */
const UNSAFE = /[\p{Cc}\p{Zl}\p{Zp}\p{Bidi_Control}]/u;
/**
 * Checked first, because lines of the log have none and the classes above cost three times as much.
 */
const UNUSUAL = /[^\n -~]/;
const ALL_UNSAFE = new RegExp(UNSAFE, 'gu');
const ALL_BUT_LINE_ENDS = new RegExp(`(?!\n)${UNSAFE.source}`, 'gu');

/** Text for one cell or line of a terminal: `\u001b` for the escape character. */
export function shown(text: string): string {
  return text.replace(ALL_UNSAFE, escaped);
}

/** Lines for a terminal. JSON keeps its values. */
export function shownLines(text: string): string {
  return UNUSUAL.test(text) ? text.replace(ALL_BUT_LINE_ENDS, escaped) : text;
}

/** Whether standard output shows colours. Node asks the terminal, NO_COLOR and FORCE_COLOR. */
export function hasColours(): boolean {
  return process.stdout.isTTY === true && process.stdout.hasColors();
}

type Colour = 'bold' | 'dim' | 'green' | 'yellow' | 'red';

/** Text in colour, where standard output shows colours. */
export function painted(colour: Colour, text: string): string {
  return hasColours() ? styleText(colour, text) : text;
}

/**
 * Breaks a text between words where it is wider than the terminal of standard output.
 * @param indent columns before the text, also on its further lines
 */
export function wrapped(text: string, indent: number): string {
  const { columns } = process.stdout;
  if (columns === undefined) return text;
  const room = Math.max(columns - indent, 2);
  const lines = text.match(new RegExp(`\\S(?:.{0,${room - 2}}\\S)?(?= |$)|\\S+`, 'g')) ?? [];
  return lines.join(`\n${' '.repeat(indent)}`);
}

/** A number for people; with a unit, `1 row` or `1,000 rows`. */
export function count(number: number, unit = ''): string {
  return `${number.toLocaleString('en-US')} ${plural(number, unit)}`.trim();
}

export function plural(number: number, unit: string): string {
  if (unit === '' || number === 1) return unit;
  return unit.endsWith('s') ? `${unit}es` : `${unit}s`;
}

/** A line of JSON for a program that prints the parsed values as they are. */
export function shownWhenParsed(line: string): string {
  return line.replace(ALL_BUT_LINE_ENDS, (character) => `\\${escaped(character)}`);
}

/** The first unsafe character of a text, as `U+202E`; undefined: none. */
export function unsafeCharacter(text: string): string | undefined {
  const found = UNSAFE.exec(text)?.[0];
  return found && `U+${hex(found).toUpperCase()}`;
}

function escaped(character: string): string {
  return `\\u${hex(character)}`;
}

/** All unsafe characters are in the basic plane. */
function hex(character: string): string {
  return character.charCodeAt(0).toString(16).padStart(4, '0');
}
