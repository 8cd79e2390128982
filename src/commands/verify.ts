import { type Command, InvalidArgumentError } from 'commander';
import { OperatorError } from '../errors.ts';
import type { VaultOptions } from '../options.ts';
import { verify } from '../service/records/verify.ts';
import type { Vault } from '../service/vault.ts';
import { command, withVault } from './command.ts';
import { print } from './output.ts';
import { addRate, conclude, type RecordsOptions, watched } from './records.ts';

export function addVerify(program: Command): void {
  addRate(
    command(program, 'verify', 'Open every record, and name the damaged ones.', [
      'standin verify',
      'standin verify --rate 5000 --from 80000000000000000000000000000000',
    ]),
  )
    .option(
      '--from <fingerprint>',
      'begin at this record; an interrupted run prints it',
      fingerprint,
    )
    .action((options) => withVault((vault, { vault: of }) => verifyRecords(vault, of, options)));
}

function fingerprint(text: string): string {
  const digits = text.replaceAll('-', '').toLowerCase();
  if (!/^[0-9a-f]{32}$/.test(digits)) throw new InvalidArgumentError('It must be 32 hex digits.');
  return digits;
}

async function verifyRecords(
  vault: Vault,
  vaultOptions: VaultOptions,
  options: RecordsOptions,
): Promise<void> {
  const { result, listed, seconds } = await watched(vault, vaultOptions, options, verify);
  const { records, bad, next } = result;
  const rest = next === undefined ? '' : ` The rest: standin verify --from ${next}`;
  print(
    options,
    { records, bad, bad_records: listed, next: next ?? null, seconds },
    `${records} records were opened, ${bad} of them bad.${rest}`,
  );
  conclude(result, bad);
  // Imported here, so that help does not wait for the driver of the database.
  const { lossOf } = await import('../service/vault.ts');
  const loss = lossOf(vaultOptions);
  if (loss !== undefined) throw new OperatorError(loss);
}
