#pragma once

// SRP's initiator of a host as a namespace: the files of its ports that take lines, the sessions
// that these have led to, and what /sys/class/scsi_host shows of them. Each unit of a target is a
// process, `weft srp attach`, whose session is a channel of the initiator's.

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/result.h"
#include "programs/control/control.h"
#include "programs/srp/written_file.h"
#include "ulp/srp/add_target.h"

namespace weft::programs::srp {

struct InitiatorOptions {
  std::string sockets{"/run/weft-srp"};  ///< folder of the NBD sockets
  unsigned fast_fail_seconds{30};
  unsigned dev_loss_seconds{600};
};

/// A port of the host, as /sys/class/infiniband has it.
struct InitiatorPort {
  std::string device{};
  std::string number{};
  std::string gid{};  ///< the first, in eight groups of digits
  bool operator==(const InitiatorPort&) const = default;
};

/// A unit as `weft srp attach` takes its name: of the target that a line names, by that port.
[[nodiscard]] std::string unit_name(const weft::srp::AddTarget& target, const InitiatorPort& port,
                                    std::uint16_t lun);
/// This end as `weft srp attach --initiator` takes it, as ib_srp has it: the extension that the
/// line gives and the GUID of the port, the other way round for a target of revision 10 (R-SRPI-3).
[[nodiscard]] std::string initiator_name(const weft::srp::AddTarget& target,
                                         const InitiatorPort& port);

class InitiatorService {
 public:
  /// The files are there when it returns. Exists: another one runs on this host. NotSupported: this
  /// is no host as a namespace.
  [[nodiscard]] static Result<std::unique_ptr<InitiatorService>> start(
      const InitiatorOptions& options);
  /// Sessions end.
  ~InitiatorService();
  InitiatorService(const InitiatorService&) = delete;
  InitiatorService& operator=(const InitiatorService&) = delete;

  [[nodiscard]] std::vector<std::string> files() const;
  /// Until SIGTERM or SIGINT.
  void run();

 private:
  /// What a line has led to (`struct Scsi_Host`).
  struct Host {
    weft::srp::AddTarget target;
    InitiatorPort port;
    std::vector<pid_t> units;
    bool is_up{};
  };
  struct Taker {
    std::unique_ptr<WrittenFile> file;
    std::thread thread;
  };

  InitiatorService(InitiatorOptions options, Control control)
      : options_(std::move(options)), control_(std::move(control)) {}
  Result<void> open();
  Result<void> open(const InitiatorPort& port);
  [[nodiscard]] int take(const InitiatorPort& port, std::string_view line);
  [[nodiscard]] Result<unsigned> reserve(const InitiatorPort& port,
                                         const weft::srp::AddTarget& target);
  void give_up(unsigned number);
  [[nodiscard]] Result<std::vector<std::uint16_t>> find_units(const Host& host) const;
  [[nodiscard]] Result<pid_t> attach(const Host& host, const std::string& socket,
                                     std::uint16_t lun) const;
  Result<void> connect(unsigned number, Host host);
  void collect();

  const InitiatorOptions options_;
  Control control_;  // which one process of a host has
  std::vector<Taker> takers_;
  std::mutex mutex_;  // of the hosts, which every taker's thread changes
  std::map<unsigned, Host> hosts_;
};

}  // namespace weft::programs::srp
