/**
 * What T is when its strings are replaced: a token of 'ann@example.com' is a string, not that one.
 * Lists that are no tuples have a branch of their own, which the compiler can put off: a type that
 * refers to itself in a list would otherwise be too deep for it.
 */
export type Replaced<T> = T extends string
  ? string
  : T extends readonly unknown[]
    ? number extends T['length']
      ? T extends unknown[]
        ? Replaced<T[number]>[]
        : readonly Replaced<T[number]>[]
      : { [Index in keyof T]: Replaced<T[Index]> }
    : T extends object
      ? { [Name in keyof T]: Replaced<T[Name]> }
      : T;

/**
 * `T & StringsOnly<T>` is T where it consists of strings, and `never` at each place that has
 * something else. A type that refers to itself fits in Strings as a whole; to look through it would
 * be too deep for the compiler.
 */
export type StringsOnly<T> = [T] extends [Strings] ? unknown : OnlyStrings<T>;

type Strings = string | undefined | readonly Strings[] | { readonly [name: string]: Strings };

/** For interfaces, which do not fit where any name may be. */
type OnlyStrings<T> = T extends string | undefined
  ? T
  : T extends (...args: never) => unknown
    ? never
    : T extends object
      ? { [Name in keyof T]: OnlyStrings<T[Name]> }
      : never;
