#pragma once

// The commands of the initiator: `discover`, and `attach`, which runs nbdkit with our plugin.

#include <CLI/CLI.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "iscsi/initiator_options.h"
#include "programs/disk/disk.h"
#include "programs/iscsi/link.h"

namespace weft::programs::iscsi {

/// What a session is told on a command line, or among the parameters of the plugin.
struct SessionOptions {
  std::string initiator{};  ///< iSCSI Name; empty: made of the host's name
  std::string chap_file{};
  /// To offer for CHAP. The default is what every target has: Debian's tgt takes the
  /// number of SHA-256 for SHA-1, and refuses who offers it.
  std::string chap_algorithm{"md5"};
  unsigned fast_fail_seconds{30};
  unsigned connections{1};           ///< of the session
  unsigned recovery_level{0};        ///< of errors: 0 to 2
  bool digests{};                    ///< CRC32C over headers and data, or no login
  weft::iscsi::HelloPolicy hello{};  ///< of iSER, after each login
  disk::DiskProtection protection{};
};

/// "agreed" or "unasked", as --hello and the plugin have it; "never".
[[nodiscard]] std::optional<weft::iscsi::HelloPolicy> hello_policy_of(std::string_view name);
[[nodiscard]] std::string_view name_of(weft::iscsi::HelloPolicy policy);

/// For a discovery session: an empty `target`.
[[nodiscard]] Result<weft::iscsi::InitiatorOptions> initiator_options(const SessionOptions& options,
                                                                      const std::string& address,
                                                                      const std::string& target);

struct AttachOptions {
  std::string program{"weft-iscsi"};  ///< what errors begin with
  std::string scheme{"iscsi"};        ///< of URLs
  LinkKind links{tcp_links()};
  SessionOptions session{};
  std::string where{};   ///< a URL, or a portal
  std::string socket{};  ///< of NBD
  bool read_only{};
};

/// Who logs in, and how it shows that it is the one.
void add_session_options(CLI::App& command, SessionOptions& options);
/// Add the commands; the options outlive the parsing.
CLI::App& add_discover_command(CLI::App& app, AttachOptions& options);
CLI::App& add_attach_command(CLI::App& app, AttachOptions& options);

/// Exit statuses. The second replaces this process by nbdkit.
[[nodiscard]] int run_discover(const AttachOptions& options);
[[nodiscard]] int run_attach(const AttachOptions& options);

/// What `attach` of any transport ends with: this process becomes nbdkit with our plugin, and these
/// parameters for it. Returns an exit status if it cannot.
struct NbdkitCall {
  std::string program{};  ///< what errors begin with
  std::string socket{};
  bool read_only{};
  std::vector<std::string> parameters{};  ///< KEY=VALUE
  bool single{};                          ///< serves standard input and output instead of a socket
};
/// Of the socket and the plugin, before anything else is tried; an exit status if it cannot.
[[nodiscard]] std::optional<int> check_nbdkit(const NbdkitCall& call);
[[nodiscard]] int become_nbdkit(const NbdkitCall& call);

}  // namespace weft::programs::iscsi
