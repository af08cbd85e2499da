#pragma once

// Which devices a target is to serve, and what it says of those that it does not yet (R-SRPT-2).
// Pure.

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "base/result.h"

namespace weft::programs::srp {

class AwaitedDevices {
 public:
  /// What is new about a device that is not served; empty: nothing to say.
  struct News {
    std::string reason{};
    std::string waits_for{};  ///< the waiting begins
  };

  /// As libibverbs has them; none: all that there are.
  explicit AwaitedDevices(std::vector<std::string> named) : named_(std::move(named)) {}

  [[nodiscard]] bool are_named() const { return !named_.empty(); }

  /// Those that are to be served and are not, where these are there. Named ones that are not there,
  /// too: why, whoever opens them says.
  [[nodiscard]] std::vector<std::string> missing(const std::vector<std::string>& there,
                                                 const std::vector<std::string>& served) const {
    std::vector<std::string> names;
    for (const std::string& name : are_named() ? named_ : there) {
      if (std::ranges::find(served, name) == served.end() &&
          std::ranges::find(names, name) == names.end()) {
        names.push_back(name);
      }
    }
    return names;
  }

  /// A device could not be had, or has gone; without a name: there is none at all. A reason is told
  /// once, and that a device is not there when the waiting begins.
  [[nodiscard]] News add(const std::string& name, const Error& why) {
    std::string& told = told_[name];
    const bool begins = told.empty();
    if (!begins && (why.code == ErrorCode::NoSuchDevice || told == why.reason)) {
      return {};
    }
    told = why.reason;
    News news{.reason = why.reason};
    if (begins && (are_named() || name.empty())) {
      news.waits_for = name.empty() ? "an RDMA device" : name;
    }
    return news;
  }

  /// It is served.
  void remove(const std::string& name) {
    told_.erase(name);
    told_.erase(std::string{});  // there is one
  }

 private:
  const std::vector<std::string> named_;
  std::map<std::string, std::string> told_;
};

}  // namespace weft::programs::srp
