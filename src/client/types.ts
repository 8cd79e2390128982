/** What T is when its strings are replaced: a token of 'ann@example.com' is a string, not that one. */
export type Replaced<T> = T extends string
  ? string
  : T extends object
    ? { [Name in keyof T]: Replaced<T[Name]> }
    : T;

/** T where it consists of strings; `never` at each place that has something else. */
export type StringsOnly<T> = T extends string | undefined
  ? T
  : T extends (...args: never) => unknown
    ? never
    : T extends object
      ? { [Name in keyof T]: StringsOnly<T[Name]> }
      : never;
