import { OperatorError } from '../errors.ts';
import { certificateFinding, type TlsFiles } from '../service/certificate.ts';
import { examine } from '../service/doctor.ts';
import type { LicenseFiles } from '../service/license.ts';
import type { VaultOptions } from '../service/vault.ts';
import { type OutputOptions, print } from './output.ts';

const MARKS = { ok: 'ok      ', warning: 'warning ', problem: 'PROBLEM ' } as const;

/** Prints every finding; fails when one is a problem. */
export async function doctor(
  vault: VaultOptions,
  license: LicenseFiles | undefined,
  redis_url: string | undefined,
  tls: TlsFiles | undefined,
  options: OutputOptions,
): Promise<void> {
  const findings = [
    { check: 'configuration', status: 'ok', detail: 'complete' } as const,
    ...(await examine(vault, license, redis_url)),
    ...(tls === undefined ? [] : [certificateFinding(tls)]),
  ];
  print(
    options,
    findings,
    findings.map(({ check, status, detail }) => `${MARKS[status]} ${check}: ${detail}`).join('\n'),
  );
  const problems = findings.filter((finding) => finding.status === 'problem').length;
  if (problems > 0) throw new OperatorError(`${problems} problem${problems > 1 ? 's' : ''} found.`);
}
