import { type Command, InvalidArgumentError } from 'commander';
import { newKekSettings } from '../config.ts';
import { command, config, withVault } from './command.ts';

// Only who runs a command waits for its modules.
const keys = () => import('../commands/keyring.ts');
const records = () => import('../commands/records.ts');

export function addKeyring(program: Command): void {
  const keyring = program.command('keyring').description('The keys of the vault.');
  command(
    keyring,
    'status',
    'List the keys: purpose, version, which is primary, which KEK wraps them, how many records need them.',
    ['standin keyring status --json'],
  ).action((options) => withVault(async (vault) => (await keys()).keyringStatus(vault, options)));
  command(keyring, 'rotate', 'Add a version of the dek key, which seals new records from now on.', [
    'standin keyring rotate',
  ]).action((options) =>
    withVault(async (vault, { vault: of }) => (await keys()).keyringRotate(vault, of, options)),
  );
  addRate(
    command(
      keyring,
      'reseal',
      'Seal all records with the primary, online; Ctrl-C stops, the next run goes on.',
      ['standin keyring reseal', 'standin keyring reseal --rate 2000'],
    ),
  ).action((options) =>
    withVault(async (vault, { vault: of }) => (await records()).keyringReseal(vault, of, options)),
  );
  command(keyring, 'retire', 'Destroy a version of the dek key that no record needs.', [
    'standin keyring retire 1',
  ])
    .argument('<version>', 'of a dek key, as keyring status lists it', keyVersion)
    .action((version, options) =>
      withVault(async (vault) => (await keys()).keyringRetire(vault, version, options)),
    );
  addRewrap(keyring);
}

function addRewrap(keyring: Command): void {
  command(keyring, 'rewrap', 'Wrap all keys by another key-encryption key; no record is touched.', [
    'standin keyring rewrap --new-kek-file /etc/standin/new-kek',
    'standin keyring rewrap --new-kek-env new-kek.env',
  ])
    .option('--new-kek-file <file>', 'file of the new key-encryption key, as for KEK_FILE')
    .option('--new-kek-env <file>', 'file of settings, as .env, that name the new one')
    .action(async (options, itself: Command) => {
      const { newKekFile: file, newKekEnv: env } = options;
      if ((file === undefined) === (env === undefined))
        itself.error('error: name the new one by either --new-kek-file or --new-kek-env');
      return (await keys()).keyringRewrap(config().vault, newKekSettings({ file, env }), options);
    });
}

export function addVerify(program: Command): void {
  addRate(
    command(program, 'verify', 'Open every record, and name those that are damaged.', [
      'standin verify',
      'standin verify --rate 5000 --from 80000000000000000000000000000000',
    ]),
  )
    .option('--from <fingerprint>', 'begin at this record, as an interrupted run says', fingerprint)
    .action((options) =>
      withVault(async (vault, { vault: of }) =>
        (await records()).verifyRecords(vault, of, options),
      ),
    );
}

function addRate(made: Command): Command {
  return made.option('--rate <n>', 'at most so many records a second; default: no bound', rate);
}

function rate(text: string): number {
  const parsed = Number(text);
  if (!Number.isInteger(parsed) || parsed < 1 || parsed > 10_000_000)
    throw new InvalidArgumentError('It must be a whole number of records a second, 1 to 10000000.');
  return parsed;
}

function keyVersion(text: string): number {
  if (!/^[1-9]\d{0,4}$/.test(text)) throw new InvalidArgumentError('It must be a whole number.');
  return Number(text);
}

function fingerprint(text: string): string {
  const digits = text.replaceAll('-', '').toLowerCase();
  if (!/^[0-9a-f]{32}$/.test(digits)) throw new InvalidArgumentError('It must be 32 hex digits.');
  return digits;
}
