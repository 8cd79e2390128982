import { OperatorError } from '../errors.ts';
import { type LicenseFiles, verifyLicense } from '../service/license.ts';
import { shown } from '../terminal.ts';
import { type OutputOptions, print, time } from './output.ts';

/** Prints the state of the license; fails when tokenize would. */
export async function licenseVerify(files: LicenseFiles, options: OutputOptions): Promise<void> {
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
