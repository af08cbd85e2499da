#include "programs/iscsi/attach_command.h"

#include <fmt/format.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <optional>
#include <system_error>
#include <utility>
#include <vector>

#include "programs/disk/disk.h"
#include "programs/iscsi/configuration.h"
#include "programs/iscsi/initiator_path.h"
#include "programs/iscsi/libcrypto_chap.h"
#include "programs/iscsi/target_command.h"
#include "programs/iscsi/target_url.h"

namespace weft::programs::iscsi {
namespace {

constexpr int kMaxConnections = 16;         // policy
constexpr int kMaxApplicationTag = 0xFFFE;  // the one beyond says "do not check" (SBC-3 §4.22.2)
constexpr std::string_view kPlugin = "libweft-nbd.so";

/// Names may have a to z, 0 to 9, '-', '.' and ':' (RFC 7143 §4.2.7.1).
[[nodiscard]] std::string default_initiator() {
  std::array<char, 128> host{};
  gethostname(host.data(), host.size() - 1);
  std::string name = "iqn.2026-01.org.weft:";
  for (const char* next = host.data(); *next != '\0'; ++next) {
    const bool is_letter = *next >= 'a' && *next <= 'z';
    const bool is_digit = *next >= '0' && *next <= '9';
    name += is_letter || is_digit || *next == '.' ? *next : '-';
  }
  return name;
}

/// Where it is in a tree of builds, or beside the programs.
[[nodiscard]] std::string find_plugin() {
  std::error_code error;
  const auto own = std::filesystem::read_symlink("/proc/self/exe", error);
  const auto here = own.parent_path();
  for (const auto& candidate : {here / kPlugin, here.parent_path() / "nbd" / kPlugin,
                                here.parent_path() / "lib" / "weft" / kPlugin}) {
    if (access(candidate.c_str(), R_OK) == 0) {
      return candidate.string();
    }
  }
  return {};
}

[[nodiscard]] std::optional<weft::iscsi::ChapAlgorithm> algorithm_of(std::string_view name) {
  using enum weft::iscsi::ChapAlgorithm;
  for (const auto& [text, algorithm] : {
           std::pair{"md5",      Md5        },
           std::pair{"sha1",     Sha1       },
           std::pair{"sha256",   Sha256     },
           std::pair{"sha3-256", Sha3With256}
  }) {
    if (name == text) {
      return algorithm;
    }
  }
  return std::nullopt;
}

void say(const AttachOptions& options, const std::string& reason) {
  fmt::print(stderr, "{}: {}\n", options.program, reason);
}

/// Logs in, finds a disk, and logs out.
[[nodiscard]] Result<void> look_at(const weft::iscsi::InitiatorOptions& options, scsi::Lun lun,
                                   const LinkKind& links) {
  InitiatorPath path{options, lun, [](const std::string&) {}, links};
  if (auto opened = path.open(); !opened) {
    return opened;
  }
  return disk::Disk{path}.open();
}

// What the plugin is told of a session, beside the URL.
[[nodiscard]] std::vector<std::string> plugin_parameters(const SessionOptions& options) {
  std::vector<std::string> made{
      fmt::format("fast-fail={}", options.fast_fail_seconds),
      fmt::format("connections={}", options.connections),
      fmt::format("recovery-level={}", options.recovery_level),
      fmt::format("digests={}", options.digests ? "on" : "off"),
      fmt::format("hello={}", name_of(options.hello)),
      fmt::format("protection={}", options.protection.used ? "on" : "off")};
  if (const auto tag = options.protection.application_tag) {
    made.push_back(fmt::format("application-tag={}", *tag));
  }
  if (!options.initiator.empty()) {
    made.push_back("initiator=" + options.initiator);
  }
  if (!options.chap_file.empty()) {
    made.push_back("chap-file=" + std::filesystem::absolute(options.chap_file).string());
    made.push_back("chap-algorithm=" + options.chap_algorithm);
  }
  return made;
}

}  // namespace

std::string_view name_of(weft::iscsi::HelloPolicy policy) {
  switch (policy) {
    case weft::iscsi::HelloPolicy::Never:
      return "never";
    case weft::iscsi::HelloPolicy::Agreed:
      return "agreed";
    case weft::iscsi::HelloPolicy::Unasked:
      return "unasked";
  }
  std::unreachable();
}

std::optional<weft::iscsi::HelloPolicy> hello_policy_of(std::string_view name) {
  using enum weft::iscsi::HelloPolicy;
  for (const auto policy : {Never, Agreed, Unasked}) {
    if (name == name_of(policy)) {
      return policy;
    }
  }
  return std::nullopt;
}

Result<weft::iscsi::InitiatorOptions> initiator_options(const SessionOptions& options,
                                                        const std::string& address,
                                                        const std::string& target) {
  weft::iscsi::InitiatorOptions made;
  made.name = options.initiator.empty() ? default_initiator() : options.initiator;
  if (auto checked = weft::iscsi::check_iscsi_name(made.name); !checked) {
    return std::unexpected(checked.error());
  }
  made.address = address;
  made.target = target;
  made.fast_fail = Duration::seconds(options.fast_fail_seconds);
  made.preferences.values.max_connections = options.connections;
  made.preferences.values.error_recovery_level = options.recovery_level;
  if (options.digests) {
    made.preferences.header_digest = weft::iscsi::DigestPolicy::Always;
    made.preferences.data_digest = weft::iscsi::DigestPolicy::Always;
  }
  if (!options.chap_file.empty()) {
    auto chap = read_chap_file(options.chap_file, ChapEnd::Initiator);
    if (!chap) {
      return std::unexpected(chap.error());
    }
    made.chap = *std::move(chap);
    const auto algorithm = algorithm_of(options.chap_algorithm);
    if (!algorithm) {
      return fail(ErrorCode::InvalidArgument,
                  "'{}' is no algorithm of CHAP: md5, sha1, sha256, sha3-256",
                  options.chap_algorithm);
    }
    made.chap.algorithms = {*algorithm};
  }
  // Another session of the same initiator is not to be reinstated by this one (RFC 7143 §6.3.5).
  std::array<std::byte, 5> qualifier{};
  LibcryptoChap{}.fill_random(qualifier);
  for (const std::byte octet : qualifier) {
    made.isid = (made.isid & 0x00FF'FFFF'FFFF) << 8 | std::to_integer<std::uint64_t>(octet);
  }
  made.isid = 0x8000'0000'0000 | (made.isid & 0x00FF'FFFF'FFFF);
  return made;
}

void add_session_options(CLI::App& command, SessionOptions& options) {
  command.add_option("--initiator", options.initiator,
                     "iSCSI Name of this end; default: made of the host's name");
  command.add_option("--chap-file", options.chap_file,
                     "Secrets: as whom to log in, and whom the target has to be");
  command.add_option("--chap-algorithm", options.chap_algorithm, "md5, sha1, sha256 or sha3-256")
      ->needs("--chap-file")
      ->default_str(options.chap_algorithm);
}

CLI::App& add_discover_command(CLI::App& app, AttachOptions& options) {
  CLI::App& command = *app.add_subcommand("discover", "Asks a portal which targets there are");
  command.add_option("portal", options.where, "HOST[:PORT]")->required();
  add_session_options(command, options.session);
  return command;
}

CLI::App& add_attach_command(CLI::App& app, AttachOptions& options) {
  CLI::App& command = *app.add_subcommand(
      "attach", "Offers a logical unit of a target as NBD on a socket, until it is told to end");
  command.add_option("unit", options.where, options.scheme + "://HOST[:PORT]/IQN/LUN")->required();
  command.add_option("--nbd", options.socket, "The socket's path, which must not be there yet")
      ->required();
  command.add_flag("--read-only", options.read_only, "Nothing is written");
  command
      .add_option("--fast-fail", options.session.fast_fail_seconds,
                  "Seconds until requests fail, after a connection was lost")
      ->default_val(30)
      ->check(CLI::Range(1, 600));
  command
      .add_option("--connections", options.session.connections,
                  "Connections of the session, if the target takes as many")
      ->default_val(1)
      ->check(CLI::Range(1, kMaxConnections));
  command
      .add_option(
          "--recovery-level", options.session.recovery_level,
          "0: a lost connection or octet ends the session, which is logged in again; 1: what "
          "was lost of a command is asked for again; 2: commands of a lost connection go on "
          "by another; if the target can")
      ->default_val(0)
      ->check(CLI::Range(0, 2));
  command.add_flag("--digests", options.session.digests,
                   "CRC32C over headers and data, as by TCP's checksum alone damage may pass");
  command.add_flag("!--no-protection", options.session.protection.used,
                   "Leaves protection information (T10-PI) to the disk, if it has some");
  command
      .add_option("--application-tag", options.session.protection.application_tag,
                  "Of protection information: written into each tuple, and wanted of each")
      ->check(CLI::Range(0, kMaxApplicationTag));
  add_session_options(command, options.session);
  return command;
}

int run_discover(const AttachOptions& options) {
  const auto made = initiator_options(options.session, with_port(options.where), {});
  if (!made) {
    say(options, made.error().reason);
    return kWrongUsage;
  }
  InitiatorPath path{*made, scsi::Lun{0}, [](const std::string&) {}, options.links};
  if (const auto opened = path.open(); !opened) {
    say(options, opened.error().reason);
    return kFailed;
  }
  const auto found = path.discover();
  if (!found) {
    say(options, found.error().reason);
    return kFailed;
  }
  for (const FoundTarget& target : *found) {
    fmt::print("{}\n", target.name);
    for (const std::string& address : target.addresses) {
      fmt::print("  {}\n", address);
    }
  }
  return 0;
}

int run_attach(const AttachOptions& options) {
  const auto url = parse_target_url(options.where);
  if (!url) {
    say(options, url.error().reason);
    return kWrongUsage;
  }
  if (url->scheme != options.scheme) {
    say(options, fmt::format("{}:// is for 'weft {} attach'", url->scheme, url->scheme));
    return kWrongUsage;
  }
  const auto made = initiator_options(options.session, url->address, url->target);
  if (!made) {
    say(options, made.error().reason);
    return kWrongUsage;
  }
  NbdkitCall call{
      .program = options.program, .socket = options.socket, .read_only = options.read_only};
  if (const auto status = check_nbdkit(call)) {
    return *status;
  }
  // nbdkit makes its socket before it looks at the disk, and leaves it behind if it then fails.
  if (const auto looked = look_at(*made, scsi::Lun{url->lun}, options.links); !looked) {
    say(options, fmt::format("{}: {}", options.where, looked.error().reason));
    return kFailed;
  }
  call.parameters = plugin_parameters(options.session);
  call.parameters.insert(call.parameters.begin(), "url=" + options.where);
  return become_nbdkit(call);
}

std::optional<int> check_nbdkit(const NbdkitCall& call) {
  if (std::error_code error; std::filesystem::exists(call.socket, error)) {
    fmt::print(stderr, "{}: {} is there already: remove it, or name another socket\n", call.program,
               call.socket);
    return kFailed;
  }
  if (find_plugin().empty()) {
    fmt::print(stderr, "{}: there is no {}: build all of Weft, with nbdkit-plugin-dev installed\n",
               call.program, kPlugin);
    return kFailed;
  }
  return std::nullopt;
}

int become_nbdkit(const NbdkitCall& call) {
  std::vector<std::string> words{"nbdkit", "--filter=blocksize"};
  if (call.single) {
    words.insert(words.end(), {"--single", "--exit-with-parent"});
  } else {
    words.insert(words.end(), {"--foreground", "--unix", call.socket});
  }
  if (call.read_only) {
    words.emplace_back("--readonly");
  }
  words.push_back(find_plugin());
  words.insert(words.end(), call.parameters.begin(), call.parameters.end());
  std::vector<char*> arguments;
  for (std::string& word : words) {
    arguments.push_back(word.data());
  }
  arguments.push_back(nullptr);
  execvp("nbdkit", arguments.data());
  fmt::print(stderr, "{}: nbdkit cannot be run: {}; install it (Debian: apt-get install nbdkit)\n",
             call.program, std::strerror(errno));
  return kFailed;
}

}  // namespace weft::programs::iscsi
