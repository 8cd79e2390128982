/** Values that a pattern proves, each different. */
export const PERSONAL_KINDS = {
  mail: (n: number) => `ann.lee${n}@mail${n % 7}.example.com`,
  card: (n: number) => withLuhn(`4${String(n).padStart(4, '0')}1234567890`),
  iban: (n: number) => withMod97(`3704004405${String(n).padStart(8, '0')}`),
  phone: (n: number) => `+44 20 7946 ${String(n % 10_000).padStart(4, '0')}`,
  url: (n: number) => `https://ann:secret${n}@host.example.com/path?n=${n}`,
  ip: (n: number) => `198.51.${n >> 8}.${n & 255}`,
} as const;
type Kind = keyof typeof PERSONAL_KINDS;

/** Values from number `from`, kind after kind. */
export function personal(from: number, count: number): string[] {
  const kinds = Object.values(PERSONAL_KINDS);
  return Array.from({ length: count }, (_, i) => kinds[(from + i) % kinds.length]!(from + i));
}

const FORMS: Readonly<Record<Kind, RegExp>> = {
  url: /https:\/\/ann:secret\d+@host\.example\.com\/path\?n=\d+/g,
  mail: /ann\.lee\d+@mail\d\.example\.com/g,
  card: /\b4\d{15}\b/g,
  iban: /\bDE\d{20}\b/g,
  phone: /\+44 20 7946 \d{4}/g,
  ip: /\b198\.51\.\d+\.\d+/g,
};

/** The spans of such values in a text, in code points. */
export function spansOf(text: string): { start: number; end: number; kind: string }[] {
  const spans = Object.entries(FORMS).flatMap(([kind, form]) =>
    [...text.matchAll(form)].map(({ 0: value, index }) => {
      const start = [...text.slice(0, index)].length;
      return { start, end: start + value.length, kind };
    }),
  );
  return spans.sort((a, b) => a.start - b.start);
}

function withLuhn(digits: string): string {
  const sum = [...`${digits}0`].reverse().reduce((total, digit, i) => {
    const doubled = Number(digit) * (i % 2 === 0 ? 1 : 2);
    return total + (doubled > 9 ? doubled - 9 : doubled);
  }, 0);
  return `${digits}${(10 - (sum % 10)) % 10}`;
}

function withMod97(account: string): string {
  const check = 98n - (BigInt(`${account}131400`) % 97n);
  return `DE${String(check).padStart(2, '0')}${account}`;
}
