import type { Schema } from '../../openapi/schemas.ts';

/** An object of a response. Its fields are all required. */
export const response = (
  description: string,
  properties: Readonly<Record<string, Schema>>,
): Schema => ({ type: 'object', description, required: Object.keys(properties), properties });

/** @param example of the value */
export const text = (description: string, example?: string): Schema => ({
  ...{ type: 'string', description },
  ...(example !== undefined && { examples: [example] }),
});

export const flag = (description: string): Schema => ({ type: 'boolean', description });

export const count = (description: string): Schema => ({
  ...{ type: 'integer', minimum: 0, description },
});

export const list = (description: string, items: Schema): Schema => ({
  ...{ type: 'array', description, items },
});

export const time = (description: string): Schema => ({
  ...text(description, '2026-11-22T16:30:00.000Z'),
  format: 'date-time',
});

export const orNull = (schema: Schema): Schema => ({ ...schema, type: [schema.type, 'null'] });

/** Of responses. A body may have it, and it changes nothing. */
export const readOnly = (schema: Schema): Schema => ({ ...schema, readOnly: true });
