/**
 * From V8 12.8 on (Node 23), after JSON.parse has met a name that ends in a backslash, it can take
 * another name with an escape for that one, in other texts, too: nodejs/node#63785.
 */
export const MISREADS_NAMES = Number.parseFloat(process.versions.v8) >= 12.8;

/** Where such a name ends. A string with a quote and a colon inside may look so, too. */
const NAME_END = /\\(?:\\|u005[Cc])"\s*:/;

/** Whether JSON.parse may misread other texts after this one. */
export function mayBeMisread(text: string): boolean {
  return MISREADS_NAMES && NAME_END.test(text);
}
