import type { Command } from 'commander';
import { type Config, readEnvironment, settingsInForce } from '../config/config.ts';
import { unknownSettings } from '../config/unknown.ts';
import { OperatorError } from '../errors.ts';
import { count, painted, shown, shownLines, wrapped } from '../terminal.ts';
import type { Durable } from '../types.ts';
import type { GrantedRole } from '../vault/vault.ts';
import {
  acting,
  command,
  config,
  type OutputOptions,
  print,
  printDone,
  printPainted,
  printTable,
  time,
} from './command.ts';

/*
 * The commands that set up or check a node. Each imports what it needs of the vault or of licenses,
 * so that help does not wait for these modules.
 */

export function addMigrate(program: Command): void {
  command(program, 'migrate', 'Bring the schema of the vault up to date, without serving.', [
    'standin migrate',
    'standin migrate --grant-to standin_app',
  ])
    .option(
      '--grant-to <role>',
      'also give a database role the rights of the service, and no other',
    )
    .option(
      '--grant-admin-to <role>',
      'also give a database role the rights of the admin API, for ADMIN_DATABASE_URL',
    )
    .action((options) => acting(migrate(options)));
}

/** For deployments where the service has no right to change tables. */
async function migrate(
  options: OutputOptions & { readonly grantTo?: string; readonly grantAdminTo?: string },
): Promise<Durable<object>> {
  const { vault } = config();
  const roles = [
    { role: options.grantTo, purpose: 'service' } as const,
    { role: options.grantAdminTo, purpose: 'admin' } as const,
  ].filter((one): one is GrantedRole => one.role !== undefined);
  if (roles.length > 0 && vault.databaseUrl === undefined)
    throw new OperatorError(
      '--grant-to and --grant-admin-to are for a PostgreSQL server, but DATABASE_URL is not set: the embedded database has one user.',
    );
  if (roles.length > 1 && options.grantTo === options.grantAdminTo)
    throw new OperatorError(
      'The service and the admin API need two roles: name another with --grant-admin-to.',
    );
  const { migrateVault } = await import('../vault/vault.ts');
  const migrated = await migrateVault(vault, roles);
  const { grants, ...changes } = migrated;
  const { applied, distributed = [] } = changes;
  const schema = [
    applied.length === 0 ? 'The schema is up to date.' : `Applied ${applied.join(', ')}.`,
    ...(distributed.length === 0
      ? []
      : [`Distributed over the nodes of Citus: ${distributed.join(', ')}.`]),
  ].join(' ');
  if (roles.length === 0) return printDone(options, changes, schema);
  const of = { service: 'the service', admin: 'the admin API' };
  const may = roles.map(({ role, purpose }) => `${role} may do what ${of[purpose]} does`);
  const text = `${schema}\n${may.join(', ')}, and nothing else:\n\n${grants.join(';\n')};`;
  return printDone(options, migrated, text);
}

export function addConfig(program: Command): void {
  command(
    program,
    'config',
    'Print the settings in force, and where each comes from. Secrets are not shown.',
    ['standin config', 'PORT=9000 standin config --json'],
  ).action((options) => {
    const settings = settingsInForce();
    const rows = settings.map(({ setting, value, from }) => [
      setting,
      value ?? (from === null ? '-' : '(not shown)'),
      from ?? '-',
    ]);
    printTable(options, settings, { headings: ['SETTING', 'VALUE', 'FROM'], rows });
    for (const words of unknownSettings(readEnvironment()))
      process.stderr.write(`standin: ${shownLines(words)}\n`);
    // Fails as a start would when a setting is refused.
    config();
  });
}

const MARKS = {
  ok: ['green', 'ok      '],
  warning: ['yellow', 'warning '],
  problem: ['red', 'PROBLEM '],
} as const;
const INDENT = MARKS.ok[1].length + 1;

export function addDoctor(program: Command): void {
  command(
    program,
    'doctor',
    'Check configuration, database, keys and settings, and say how to fix problems.',
    ['standin doctor'],
  ).action((options) => doctor(config(), options));
}

/** Prints every finding. Fails when one of them is a problem. */
async function doctor(
  { unknownSettings: unknown, ...examined }: Config,
  options: OutputOptions,
): Promise<void> {
  const { examine } = await import('../process/doctor.ts');
  const status = unknown.length === 0 ? 'ok' : 'warning';
  const detail = unknown.join(' ') || 'complete';
  const findings = [
    { check: 'configuration', status, detail } as const,
    ...(await examine(examined)),
  ];
  const lines = findings.map(({ check, status, detail }) => {
    const [colour, mark] = MARKS[status];
    return `${painted(colour, mark)} ${wrapped(`${check}: ${shown(detail)}`, INDENT)}`;
  });
  printPainted(options, findings, lines.join('\n'));
  const problems = findings.filter((finding) => finding.status === 'problem').length;
  if (problems > 0) throw new OperatorError(`${count(problems, 'problem')} found.`);
}

export function addLicense(program: Command): void {
  command(
    program
      .command('license')
      .description('Check a license file. A service needs none unless LICENSE_FILE is set.'),
    'verify [file]',
    'Verify a license offline.',
    ['standin license verify', 'standin license verify license.jwt --public-key key.pem'],
  )
    .option('--public-key <file>', 'public key in PEM; default: LICENSE_PUBLIC_KEY_FILE')
    .action(verifyLicenseFile);
}

/** Prints the state of the license. Fails when tokenize would fail. */
async function verifyLicenseFile(
  file: string | undefined,
  options: OutputOptions & { readonly publicKey?: string },
): Promise<void> {
  const { LICENSE_FILE, LICENSE_PUBLIC_KEY_FILE } = config();
  const licenseFile = file ?? LICENSE_FILE;
  const publicKeyFile = options.publicKey ?? LICENSE_PUBLIC_KEY_FILE;
  if (licenseFile === undefined || publicKeyFile === undefined)
    throw new OperatorError(
      'Name a license and a public key: set LICENSE_FILE and LICENSE_PUBLIC_KEY_FILE, or give FILE and --public-key.',
    );
  const { verifyLicense } = await import('../access/license.ts');
  const state = await verifyLicense({ licenseFile, publicKeyFile });
  const detail =
    state.status === 'invalid'
      ? state.problem
      : `${state.subject}, until ${time(state.expires_at)}`;
  print(options, state, `${state.status}: ${shown(detail)}`);
  if (state.status !== 'valid') throw new OperatorError(REFUSED[state.status]);
}

const REFUSED = {
  invalid: 'The license is invalid: tokenize answers 500. Put a valid one in LICENSE_FILE.',
  expired: 'The license has expired: tokenize answers 500. Put a new one in LICENSE_FILE.',
};
