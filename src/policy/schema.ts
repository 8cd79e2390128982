import { SHAPES, type Shape } from '../shape/kind-settings.ts';
import {
  FORMAT_VERSION,
  KIND_NAME,
  MASK_END,
  MAX_CLIENTS,
  MAX_FIELDS,
  MAX_KINDS,
  MAX_PATH_CHARACTERS,
  OPTIONS,
  type OptionForm,
} from './format.ts';
import { ELSEWHERE, OTHERS, RIGHTS } from './policy.ts';

type Schema = Readonly<Record<string, unknown>>;

/**
 * The JSON Schema (2020-12) of a policy, for editors. It cannot tell paths that overlap, kinds that
 * are not declared, and options that do not go together: `parsePolicy` does.
 */
export function policySchema(): Schema {
  const others = new RegExp(`^\\${OTHERS}$|${KIND_NAME}`);
  const choices = Object.entries(ELSEWHERE).map(([word, meaning]) => `${word}: they ${meaning}`);
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Standin policy',
    ...object({
      $schema: { type: 'string', description: 'The file of this schema, for editors.' },
      version: { const: FORMAT_VERSION, description: 'The version of the format.' },
      kinds: {
        description: `Classes of data, by name. ${SHAPES.join(', ')} are kinds already.`,
        ...map(MAX_KINDS, { oneOf: SHAPES.map(kind) }),
        propertyNames: { pattern: KIND_NAME, not: { enum: SHAPES } },
      },
      fields: {
        description:
          'The strings of data that are tokenized: the kind of each path, such as customer.emails[*]. Without it: all strings, as text.',
        ...map(MAX_FIELDS, { type: 'string', pattern: KIND_NAME }),
        propertyNames: { minLength: 1, maxLength: MAX_PATH_CHARACTERS },
      },
      elsewhere: {
        description: `Strings at paths that fields does not name. ${choices.join('; ')}.`,
        enum: Object.keys(ELSEWHERE),
      },
      rights: {
        description: `What a client, by name or id, sees of each kind; "${OTHERS}": all others. Without it: everything.`,
        ...map(MAX_CLIENTS, {
          ...map(MAX_KINDS, { enum: RIGHTS }),
          propertyNames: { pattern: others.source },
        }),
      },
    }),
    required: ['version'],
    dependentRequired: { fields: ['elsewhere'], elsewhere: ['fields'] },
  };
}

function kind(shape: Shape): Schema {
  const forms = Object.entries(OPTIONS[shape]).map(([name, form]) => [name, schemaOf(form)]);
  const properties = { shape: { const: shape }, ...Object.fromEntries(forms) };
  return { title: shape, ...object(properties), required: ['shape'] };
}

function schemaOf(form: OptionForm): Schema {
  const { meaning: description } = form;
  switch (form.type) {
    case 'flag':
      return { type: 'boolean', description };
    case 'number':
      return { type: 'integer', minimum: form.min, maximum: form.max, description };
    case 'word':
      return { enum: form.of, description };
    case 'words':
      return { type: 'array', items: { enum: form.of }, uniqueItems: true, description };
    case 'text':
      return { type: 'string', pattern: form.pattern, description };
    case 'mask':
      return { oneOf: form.of.map(mask), description };
  }
}

function mask(show: string): Schema {
  const properties = { show: { const: show }, first: end('start'), last: end('end') };
  if (show !== 'ends') return { ...object({ show: properties.show }), required: ['show'] };
  const anyOf = [{ required: ['first'] }, { required: ['last'] }];
  return { ...object(properties), required: ['show'], anyOf };
}

function end(name: string): Schema {
  const description = `Characters shown at the ${name}; of digits, digits. Never more than half.`;
  return { type: 'integer', minimum: MASK_END.min, maximum: MASK_END.max, description };
}

/** An object with these properties and no others. */
function object(properties: Schema): Schema {
  return { type: 'object', properties, additionalProperties: false };
}

/** An object whose names the document chooses. */
function map(maxProperties: number, values: Schema): Schema {
  return { type: 'object', minProperties: 1, maxProperties, additionalProperties: values };
}
