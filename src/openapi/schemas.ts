/** A JSON Schema (2020-12), as plain data. */
export type Schema = Readonly<Record<string, unknown>>;
export type Properties = Readonly<Record<string, Schema>>;

/**
 * A reference to a schema of the document. Nothing may stand beside it, because generators of
 * clients drop that. So each schema is complete, and has a name.
 */
export const ref = (name: string): Schema => ({ $ref: `#/components/schemas/${name}` });

/** @param more of the schema, or an example */
export const text = (description: string, more: Schema | string = {}): Schema => ({
  ...{ type: 'string', description },
  ...(typeof more === 'string' ? { examples: [more] } : more),
});

export const flag = (description: string): Schema => ({ type: 'boolean', description });

export const whole = (description: string, minimum = 0): Schema => ({
  ...{ type: 'integer', description, minimum },
});

export const time = (description: string): Schema => ({
  ...text(description, '2026-11-22T16:30:00.000Z'),
  format: 'date-time',
});

/** @param items a schema, or the name of one */
export const list = (description: string, items: Schema | string): Schema => ({
  ...{ type: 'array', description },
  items: typeof items === 'string' ? ref(items) : items,
});

export const orNull = (schema: Schema): Schema => ({ ...schema, type: [schema.type, 'null'] });

export const only = (text: string): Schema => ({ type: 'string', const: text });

/** An object whose fields are all required, but for those in `optional`. */
export const object = (
  description: string,
  properties: Properties,
  optional: Properties = {},
): Schema => ({
  ...{ type: 'object', description, required: Object.keys(properties) },
  properties: { ...properties, ...optional },
});
