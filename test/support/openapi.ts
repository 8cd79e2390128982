import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import formats from 'ajv-formats';
import type { OpenApiDocument } from '#openapi';

/** Validators for the schemas in an OpenAPI document. */
export class DocumentSchemas {
  readonly #ajv = new Ajv2020({ allErrors: true, strict: true, strictRequired: false });

  constructor(document: OpenApiDocument) {
    formats.default(this.#ajv);
    this.#ajv.addVocabulary(['openapi', 'info', 'servers', 'tags', 'paths', 'components']);
    this.#ajv.addSchema({ $id: 'document', ...document } as object);
  }

  /** @param path names from the root of the document to a schema */
  at(...path: readonly (string | number)[]): ValidateFunction {
    const steps = path.map((name) =>
      encodeURIComponent(String(name).replaceAll('~', '~0').replaceAll('/', '~1')),
    );
    return this.#ajv.getSchema(`document#/${steps.join('/')}`)!;
  }
}

/** Every operation of a document. */
export function operationsOf({ paths }: OpenApiDocument) {
  return Object.entries(paths).flatMap(([path, methods]) =>
    Object.entries(methods).map(([method, operation]) => ({ path, method, operation })),
  );
}

/** The parts of a response, and their path in the document. */
export function responseOf(
  document: OpenApiDocument,
  path: string,
  method: string,
  status: string,
) {
  const found = document.paths[path]![method]!.responses[status]!;
  if (!('$ref' in found)) {
    return { response: found, at: ['paths', path, method, 'responses', status] };
  }
  const name = found.$ref.split('/').at(-1)!;
  return { response: document.components.responses[name]!, at: ['components', 'responses', name] };
}
