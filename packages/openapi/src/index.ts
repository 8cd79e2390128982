/** The OpenAPI document of Standin's interface, and the HTML made from it. See README.md. */
export { type AdminDocument, adminDocument } from './admin-document.ts';
export { type OpenApiDocument, openApiDocument } from './document.ts';
export type { ErrorFacts, Facts, FieldContent } from './facts.ts';
export { referenceHtml } from './reference.ts';
export { STRINGS_HEADER } from './responses.ts';
export type { HealthFields } from './schemas.ts';
