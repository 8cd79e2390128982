/** Options of the parts of the service. `config/` makes them from the settings. */
export interface VaultOptions {
  /** undefined: the embedded database in dataDir. */
  readonly databaseUrl: string | undefined;
  readonly databaseConnections: number;
  readonly dataDir: string;
  readonly kek: KekSettings;
  readonly token_suffix: string;
  readonly allowUnsafePostgres: boolean;
}

/** Files of a listener, in PEM. */
export interface TlsFiles {
  readonly certificateFile: string;
  readonly keyFile: string;
  /** undefined: callers need no certificate. */
  readonly clientCaFile: string | undefined;
}

export interface LicenseFiles {
  readonly licenseFile: string;
  readonly publicKeyFile: string;
}

/** The settings of one KEK source. Plain data that contains secrets. */
export interface KekSettings {
  /**
   * undefined without a command: the file `kek` in the data folder, made with an embedded vault.
   */
  readonly file: string | undefined;
  /** A command line that prints the KEK. */
  readonly command?: string;
  /** Decrypts the file. Without this and `transit`, the file is in clear. */
  readonly aws_kms?: AwsKmsSettings;
  readonly transit?: TransitSettings;
}

export interface AwsKmsSettings {
  /** Id, alias or ARN. */
  readonly keyId: string;
  readonly region: string;
  /** undefined: the public endpoint of the region. */
  readonly endpoint: string | undefined;
  /**
   * undefined: the credentials that the AWS SDK finds (profile, web identity, container, instance).
   */
  readonly credentials: AwsCredentials | undefined;
}

export interface AwsCredentials {
  readonly access_key_id: string;
  readonly secret_access_key: string;
  readonly session_token: string | undefined;
}

/** The transit engine of HashiCorp Vault or OpenBao. */
export interface TransitSettings {
  readonly url: string;
  readonly key: string;
  readonly mount: string;
  readonly namespace: string | undefined;
  /** undefined: the authorities built into Node. */
  readonly caFile: string | undefined;
  /** Used before `token`. One of the two is set. */
  readonly tokenFile: string | undefined;
  readonly token: string | undefined;
}
