import type { PolicyFields } from '#bulk';
import { type PolicyInForce, StandinError } from '#client';
import { OperatorError } from '../errors.ts';
import type { BulkService } from './bulk-service.ts';
import { readDocument } from './policy-document.ts';

/**
 * The fields of the policy in force, which all further requests of the service are held to.
 * @param file a document that must be this policy, byte for byte; true: any policy
 * @throws OperatorError
 */
export async function policyFields(
  service: BulkService,
  file: string | true,
): Promise<PolicyFields> {
  const { version, tag, fields } = await inForce(service);
  if (file !== true) await checkDocument(file, version, tag);
  if (fields.length === 0)
    throw new OperatorError(
      `Version ${version} of the policy names no fields: name those of the file with --fields.`,
    );
  const digits = tag.slice(1, 13);
  return { policy: `version ${version}, ${digits}`, paths: fields.map(({ path }) => path) };
}

async function inForce(service: BulkService): Promise<PolicyInForce> {
  try {
    return await service.usePolicy();
  } catch (error) {
    if (error instanceof StandinError) throw new OperatorError(`${service.problem(error)}.`);
    throw error;
  }
}

async function checkDocument(file: string, version: number, tag: string): Promise<void> {
  const document = await readDocument(file);
  const { tagOf } = await import('../service/policy-follower.ts');
  if (tagOf(document) === tag) return;
  throw new OperatorError(
    `${file} is not the policy in force, which is version ${version}. Compare them with standin policy diff ${file}; all nodes have a version 5 s after standin policy apply. To use the policy in force, give --policy without a file.`,
  );
}
