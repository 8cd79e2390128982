/** The OpenAPI document of Standin's interface, and the HTML made from it. See README.md. */
export { type OpenApiDocument, openApiDocument } from './document.ts';
export type { ErrorFacts, Facts, FieldContent, Schema } from './facts.ts';
export { referenceHtml } from './reference.ts';
export { HEADERS, STRINGS_HEADER } from './responses.ts';
export { type HealthFields, ref } from './schemas.ts';
