import type { Command } from 'commander';
import { verifyLicense } from '../access/license.ts';
import { OperatorError } from '../errors.ts';
import type { LicenseFiles } from '../options.ts';
import { shown } from '../terminal.ts';
import { command, config, type OutputOptions, print, time } from './command.ts';

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
    .action((file, options) => verify(licenseFiles(file, options.publicKey), options));
}

function licenseFiles(file: string | undefined, publicKey: string | undefined): LicenseFiles {
  const { LICENSE_FILE, LICENSE_PUBLIC_KEY_FILE } = config();
  const licenseFile = file ?? LICENSE_FILE;
  const publicKeyFile = publicKey ?? LICENSE_PUBLIC_KEY_FILE;
  if (licenseFile === undefined || publicKeyFile === undefined) {
    throw new OperatorError(
      'Name a license and a public key: set LICENSE_FILE and LICENSE_PUBLIC_KEY_FILE, or give FILE and --public-key.',
    );
  }
  return { licenseFile, publicKeyFile };
}

/** Prints the state of the license. Fails when tokenize would fail. */
async function verify(files: LicenseFiles, options: OutputOptions): Promise<void> {
  const state = await verifyLicense(files);
  const detail =
    state.status === 'invalid'
      ? state.problem
      : `${state.subject}, until ${time(state.expires_at)}`;
  print(options, state, `${state.status}: ${shown(detail)}`);
  if (state.status === 'invalid')
    throw new OperatorError(
      'The license is invalid: tokenize answers 500. Put a valid one in LICENSE_FILE.',
    );
  if (state.status === 'expired')
    throw new OperatorError(
      'The license has expired: tokenize answers 500. Put a new one in LICENSE_FILE.',
    );
}
