#include "node/xrc_domains.h"

namespace weft::node {

Result<XrcDomains::Opened> XrcDomains::open(ProcessId process, const Name& name, bool creates,
                                            bool is_exclusive) {
  const auto known = numbers_.find(name);
  if (known == numbers_.end() && !creates) {
    return fail(ErrorCode::TryAgain, "no XRC domain is open for that file; O_CREAT creates one");
  }
  if (known != numbers_.end() && is_exclusive) {
    return fail(ErrorCode::InvalidArgument,
                "the file's XRC domain is open already, and O_EXCL asks for a new one");
  }
  if (of(process).size() >= kMaxOfProcess) {
    return fail(ErrorCode::OutOfMemory, "a process may have the XRC domains of {} files open",
                kMaxOfProcess);
  }
  const bool is_new = known == numbers_.end();
  const std::uint32_t number = is_new ? ++newest_ : known->second;
  if (is_new) {
    numbers_.emplace(name, number);
    domains_[number].name = name;
  }
  domains_[number].members.insert(process);
  return Opened{.domain = number, .is_new = is_new};
}

bool XrcDomains::close(ProcessId process, std::uint32_t domain) {
  const auto found = domains_.find(domain);
  if (found == domains_.end() || found->second.members.erase(process) == 0 ||
      !found->second.members.empty()) {
    return false;
  }
  numbers_.erase(found->second.name);
  domains_.erase(found);
  return true;
}

bool XrcDomains::has(ProcessId process, std::uint32_t domain) const {
  const auto found = domains_.find(domain);
  return found != domains_.end() && found->second.members.contains(process);
}

std::vector<ProcessId> XrcDomains::members(std::uint32_t domain) const {
  const auto found = domains_.find(domain);
  return found == domains_.end()
             ? std::vector<ProcessId>{}
             : std::vector<ProcessId>{found->second.members.begin(), found->second.members.end()};
}

std::vector<std::uint32_t> XrcDomains::of(ProcessId process) const {
  std::vector<std::uint32_t> found;
  for (const auto& [number, domain] : domains_) {
    if (domain.members.contains(process)) {
      found.push_back(number);
    }
  }
  return found;
}

}  // namespace weft::node
