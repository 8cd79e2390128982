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

/** `T & StringsOnly<T>` is T if T consists of strings, and `never` at every other place. */
export type StringsOnly<T> = Only<T, string | undefined>;

/** `T & JsonOnly<T>` is T if T consists of JSON and bigints, and `never` at every other place. */
export type JsonOnly<T> = Only<T, string | number | bigint | boolean | null | undefined>;

/**
 * A type that refers to itself extends Tree as a whole, so the compiler need not recurse through
 * it.
 */
type Only<T, Leaf> = [T] extends [Tree<Leaf>] ? unknown : OnlyLeaves<T, Leaf>;

type Tree<Leaf> = Leaf | readonly Tree<Leaf>[] | { readonly [name: string]: Tree<Leaf> };

/** For interfaces, which have no index signature and so never extend Tree. */
type OnlyLeaves<T, Leaf> = T extends Leaf
  ? T
  : T extends (...args: never) => unknown
    ? never
    : T extends object
      ? { [Name in keyof T]: OnlyLeaves<T[Name], Leaf> }
      : never;

/** The data of a call with `fields`; without them (Field is never), with or without a policy. */
export type Accepted<T, Field, Policy> = [Field] extends [never]
  ? Policy extends true
    ? JsonOnly<T>
    : StringsOnly<T>
  : unknown;
/** Its answer. */
export type Answered<T, Field, Policy> = [Field, Policy] extends [never, false] ? Replaced<T> : T;

/** T as look-up answers: null where a value has no token. */
export type Found<T> = T extends string
  ? string | null
  : T extends object
    ? { [Name in keyof T]: Found<T[Name]> }
    : T;

/**
 * The paths of T that lead to a string, as `fields` takes them. A path ends in `?` where the value
 * may be missing; null may be anywhere. Paths have at most six steps, so that a type that refers to
 * itself has an end.
 */
export type FieldOf<T> =
  IsAny<T> extends true
    ? string
    : [T] extends [readonly (infer Record)[]]
      ? Paths<Record, '', [], ''>
      : Paths<T, '', [], ''>;

/** Not `0 extends 1 & T`, which the compiler answers too early where T extends object. */
type IsAny<T> = boolean extends (T extends never ? true : false) ? true : false;
type MaxSteps = 6;

/** All paths inside an object. */
type Paths<
  T,
  Optional extends '' | '?',
  Steps extends 0[],
  Dot extends '' | '.',
> = Steps['length'] extends MaxSteps
  ? never
  : {
      [Name in keyof T & string]-?: `${Named<Name, Dot>}${Rest<T[Name], Optional, [...Steps, 0]>}`;
    }[keyof T & string];

type Odd = '.' | ',' | '[' | ']' | '"' | '?' | ' ';
type Named<Name extends string, Dot extends '' | '.'> = Name extends `${string}${Odd}${string}`
  ? `["${Name}"]`
  : `${Dot}${Name}`;

/** The rest of a path after a step that leads to T: nothing for a string. */
type Rest<T, Optional extends '' | '?', Steps extends 0[]> =
  IsAny<T> extends true
    ? Optional | `${'.' | '['}${string}`
    : unknown extends T
      ? never
      : undefined extends T
        ? Rest<Exclude<T, undefined>, '?', Steps>
        : [T] extends [string | null]
          ? Optional
          : [T] extends [readonly (infer Item)[] | null]
            ? Items<Item, Optional, Steps>
            : [T] extends [((...args: never) => unknown) | null]
              ? never
              : [T] extends [object | null]
                ? Paths<NonNullable<T>, Optional, Steps, '.'>
                : never;

type Items<Item, Optional extends '' | '?', Steps extends 0[]> = Steps['length'] extends MaxSteps
  ? never
  : `[*]${Rest<Item, Optional, [...Steps, 0]>}` | `[${number}]${Rest<Item, '?', [...Steps, 0]>}`;
