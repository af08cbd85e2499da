#pragma once

// A service that a command starts on a host of a fabric and leaves running there: one process a
// host, whose lock, log and number are in the host's own /run.

#include <sys/types.h>

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "os/unique_fd.h"

namespace weft::programs {

/// A program's standard error once it runs by itself.
[[nodiscard]] std::string log_file_of(std::string_view service);

/// The host's one process of that service, as long as the descriptor is open. Exists: another is;
/// at once where `is_there` says so, else after some time, since who was killed may still end.
[[nodiscard]] Result<os::UniqueFd> take_service(std::string_view service,
                                                const std::function<bool()>& is_there);
/// Who that is; none: nobody.
[[nodiscard]] std::optional<pid_t> owner_of_service(std::string_view service);

/// A child on a host, and what it writes on its standard output.
struct StartedChild {
  pid_t pid{};
  os::UniqueFd output;
};
/// `weft exec --ns HOST -- THIS PROGRAM ARGUMENTS`, on that fabric, or the usual one if it is
/// empty.
[[nodiscard]] Result<StartedChild> start_on(const std::string& host, const std::string& fabric,
                                            const std::vector<std::string>& arguments);
/// What it says, to its end or to the first line's.
[[nodiscard]] std::string first_line(const os::UniqueFd& from);
/// Starts one on each host and prints the first line of each. Exit status: the last that is not 0.
[[nodiscard]] int start_on_all(const std::vector<std::string>& hosts, const std::string& fabric,
                               const std::vector<std::string>& arguments);
/// Runs one on each host to its end, and prints what it says. Exit status.
[[nodiscard]] int run_on_all(const std::vector<std::string>& hosts, const std::string& fabric,
                             const std::vector<std::string>& arguments);
/// From now on this process runs by itself: no terminal, and the service's log.
void leave_caller(std::string_view service);
/// Ends the process that has the service, and waits for its end. NotFound: nobody has it.
[[nodiscard]] Result<void> stop_service(std::string_view service);

}  // namespace weft::programs
