/**
 * T with its strings replaced: the token of the literal type 'ann@example.com' is any string.
 * Lists that are not tuples have their own branch, because the compiler can defer it. Without the
 * branch, a type that refers to itself in a list would be too deep for the compiler.
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
 * `T & StringsOnly<T>` is T if T consists of strings, and `never` at every other place. A type that
 * refers to itself extends Strings as a whole, so the compiler need not recurse through it.
 */
export type StringsOnly<T> = [T] extends [Strings] ? unknown : OnlyStrings<T>;

type Strings = string | undefined | readonly Strings[] | { readonly [name: string]: Strings };

/** For interfaces, which have no index signature and so never extend Strings. */
type OnlyStrings<T> = T extends string | undefined
  ? T
  : T extends (...args: never) => unknown
    ? never
    : T extends object
      ? { [Name in keyof T]: OnlyStrings<T[Name]> }
      : never;
