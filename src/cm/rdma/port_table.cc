#include "cm/rdma/port_table.h"

#include <algorithm>

namespace weft::cm {
namespace {

/// True if a connection request to some address matches both claims.
[[nodiscard]] bool overlap(const PortTable::Claim& a, const PortTable::Claim& b) {
  const auto* const one = std::get_if<IpEndpoint>(&a.address);
  const auto* const other = std::get_if<IpEndpoint>(&b.address);
  if (one == nullptr || other == nullptr) {
    const auto* const ib = std::get_if<IbEndpoint>(&a.address);
    const auto* const other_ib = std::get_if<IbEndpoint>(&b.address);
    return ib != nullptr && other_ib != nullptr && a.type == b.type &&
           (ib->gid.is_zero() || other_ib->gid.is_zero() || ib->gid == other_ib->gid);
  }
  if (one->address.family() == other->address.family()) {
    return one->address.is_unspecified() || other->address.is_unspecified() ||
           one->address == other->address;
  }
  const PortTable::Claim& six = one->address.is_v6() ? a : b;
  const IpAddress& address = one->address.is_v6() ? one->address : other->address;
  return address.is_unspecified() && !six.af_only;
}

}  // namespace

/// Two ids that both permit reuse may share an address while neither listens.
const PortTable::Holder* PortTable::conflict(const std::vector<Holder>& holders, const Claim& claim,
                                             RdmaCmId except) const {
  const auto found = std::ranges::find_if(holders, [&](const Holder& holder) {
    const bool may_share = holder.claim.reuses_address && claim.reuses_address &&
                           !holder.claim.listens && !claim.listens;
    return holder.id != except && !may_share && overlap(holder.claim, claim);
  });
  return found == holders.end() ? nullptr : &*found;
}

Result<std::uint16_t> PortTable::claim(RdmaCmId id, PortSpace space, const Claim& claim) {
  std::uint16_t port = port_number_of(claim.address);
  if (port != 0) {
    std::vector<Holder>& holders = holders_[{space, port}];
    if (conflict(holders, claim, {}) != nullptr) {
      return fail(ErrorCode::AddressInUse, "{} is taken by another id of this host",
                  to_string(claim.address));
    }
    holders.push_back({.id = id, .claim = claim});
    ++size_;
    return port;
  }
  constexpr std::uint32_t kCount = 0x10000 - kFirstEphemeral;
  const auto start = static_cast<std::uint32_t>(random_.below(kCount));
  for (std::uint32_t i = 0; i < kCount; ++i) {
    port = static_cast<std::uint16_t>(kFirstEphemeral + (start + i) % kCount);
    std::vector<Holder>& holders = holders_[{space, port}];
    if (holders.empty()) {
      Claim taken = claim;
      set_port_number(taken.address, port);
      holders.push_back({.id = id, .claim = taken});
      ++size_;
      return port;
    }
  }
  return fail(ErrorCode::AddressNotAvailable, "all ports from {} on are taken", kFirstEphemeral);
}

Result<void> PortTable::listen(RdmaCmId id, PortSpace space, std::uint16_t port) {
  const auto found = holders_.find({space, port});
  if (found == holders_.end() ||
      std::ranges::find(found->second, id, &Holder::id) == found->second.end()) {
    return fail(ErrorCode::InvalidArgument, "the id is not bound to a port number of its own");
  }
  std::vector<Holder>& holders = found->second;
  const auto own = std::ranges::find(holders, id, &Holder::id);
  Claim wanted = own->claim;
  wanted.listens = true;
  if (conflict(holders, wanted, id) != nullptr) {
    return fail(ErrorCode::AddressInUse, "another id is bound to {}, too",
                to_string(wanted.address));
  }
  own->claim = wanted;
  return {};
}

void PortTable::release(RdmaCmId id, PortSpace space, std::uint16_t port) {
  const auto found = holders_.find({space, port});
  if (found == holders_.end()) {
    return;
  }
  size_ -= std::erase_if(found->second, [id](const Holder& holder) { return holder.id == id; });
  if (found->second.empty()) {
    holders_.erase(found);
  }
}

}  // namespace weft::cm
