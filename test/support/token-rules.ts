/**
 * The shape rules of docs/tokens.md, implemented a second time from the document, independently of
 * src/shape. Returns a pattern that the token of a value must match.
 */
export function tokenPattern(value: string): RegExp {
  const characters = [...value.replaceAll(/[\t\p{Zs}]/gu, ' ')].slice(0, 256);
  return new RegExp(`^(?:${emailPattern(characters.join('')) ?? textPattern(characters)})_tok$`);
}

function emailPattern(text: string): string | undefined {
  const parts = /^([^@ ]+)@([^@ ]+)\.([^@. ]+)$/su.exec(text);
  if (parts === null) return undefined;
  const [local, domain, top] = parts.slice(1).map((part) => [...part].length) as [
    number,
    number,
    number,
  ];
  const stems = local + domain + top >= 5;
  return `[a-z]{${local}${stems ? '' : ','}}@[a-z]{${domain}}\\.[a-z]{${top}}`;
}

function textPattern(characters: string[]): string {
  const kinds = characters.map((character, i) => {
    if (/[0-9]/.test(character)) return '[0-9]';
    const isEdge = isBlank(characters.slice(0, i + 1)) || isBlank(characters.slice(i));
    const isKept = /[ -~]/.test(character) && !/[A-Za-z]/.test(character) && !isEdge;
    return isKept ? `\\x${character.codePointAt(0)!.toString(16).padStart(2, '0')}` : '[a-z]';
  });
  const letters = kinds.filter((kind) => kind === '[a-z]').length;
  const digits = kinds.filter((kind) => kind === '[0-9]').length;
  if (letters + digits === 0) return `${kinds.join('')}[a-z]{8}`;
  if (26 ** letters * 10 ** digits >= 1_000_000) return kinds.join('');
  // The least number of draws makes the last drawn run longer than in the value.
  const last = kinds.findLastIndex((kind) => kind.startsWith('['));
  return kinds.map((kind, i) => (i === last ? `${kind}+` : kind)).join('');
}

function isBlank(characters: string[]): boolean {
  return characters.every((character) => character === ' ');
}

/** Rows of a CSV text (RFC 4180), as objects with the names of the first line. */
export function parseCsv(text: string): Record<string, string>[] {
  const rows: string[][] = [[]];
  // A cell, either quoted with doubled quotes or bare, and its separator.
  for (const [, quoted, bare, end] of text.matchAll(
    /(?:"((?:[^"]|"")*)"|([^",\r\n]*))(,|\r?\n|$)/g,
  )) {
    rows.at(-1)!.push(quoted === undefined ? bare! : quoted.replaceAll('""', '"'));
    if (end !== ',') rows.push([]);
  }
  const [names, ...cells] = rows.filter((row) => row.length > 1);
  return cells.map((row) => Object.fromEntries(names!.map((name, i) => [name, row[i] ?? ''])));
}
