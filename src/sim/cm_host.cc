#include "sim/cm_host.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/process_slot.h"

namespace weft::sim {
namespace {

constexpr cm::PortKey kPort{1};

[[nodiscard]] hca::HcaConfiguration configuration(std::uint32_t slot, std::uint64_t seed) {
  hca::HcaConfiguration configuration;
  configuration.seed = seed;
  configuration.limits.max_qp = CmProgram::kMaxQps;
  configuration.limits.max_mr = 2 * CmProgram::kMaxQps;
  configuration.limits.max_qp_rd_atomic = 8;
  configuration.first_qpn = first_qpn_of(slot);
  return configuration;
}

}  // namespace

CmProgram::CmProgram(Lid lid, std::uint32_t slot, std::uint64_t seed)
    : slot_(slot), hca_(configuration(slot, seed), *this) {
  hca::PortAttributes port;
  port.state = hca::PortState::Active;
  port.pkeys = {kDefaultPKey};
  port.lid = lid;
  port.lmc = 1;
  port.gids = {
      Gid{kDefaultGidPrefix, Guid{CmHost::number_of(lid)}}
  };
  hca_.set_port(PortNumber{1}, port);
  pd_ = *hca_.allocate_pd();
}

void CmProgram::async_event(const hca::AsyncEvent& event) {
  if (event.type == hca::AsyncEventType::CommunicationEstablished) {
    established_.push_back(event.qp->number());
  } else if (event.type == hca::AsyncEventType::PathMigrated) {
    migrated_.push_back(event.qp->number());
  }
}

std::vector<Qpn> CmProgram::take_established() { return std::exchange(established_, {}); }
std::vector<Qpn> CmProgram::take_migrated() { return std::exchange(migrated_, {}); }

CmHost::CmHost(std::uint32_t number, std::uint64_t seed, Server server)
    : number_(number), seed_(seed), server_(std::move(server)) {}

CmHost::~CmHost() = default;

void CmHost::boot() {
  ++life_;
  slot_ = 0;
  gsi_ = std::make_unique<mad::ManagementInterface>(mad::InterfaceKind::Gsi);
  manager_ = std::make_unique<cm::ConnectionManager>(
      cm::Options{.seed = seed_ * 31 + number_ * 7ULL + life_});
  cm::PortAddress port;
  port.lid = lid();
  port.lmc = 1;
  port.gids = {gid()};
  port.pkeys = {kDefaultPKey};
  port.ca_guid = Guid{0xCA00 + number_};
  static_cast<void>(manager_->add_port(kPort, *gsi_, port).value());
  start_program();
}

/// A new program does not get the QPNs of the previous one; after a restart of the host QPNs are
/// reused.
void CmHost::start_program() {
  ++slot_;
  program_ = std::make_unique<CmProgram>(lid(), slot_, seed_ ^ number_ ^ slot_);
  listen();
}

void CmHost::listen() {
  for (const std::uint64_t service : {kDirectService, kCmrcService, kLookupService}) {
    listeners_.push_back(manager_->create(*this).value());
    static_cast<void>(manager_->listen(listeners_.back(), {.service_id = service}).value());
  }
}

void CmHost::end_program(Instant now) {
  for (const auto& end : ends_) {
    end->die(false, now);
  }
  ends_.clear();
  for (const cm::CmId id : std::exchange(listeners_, {})) {
    static_cast<void>(manager_->destroy(id, now));
  }
  program_.reset();
}

void CmHost::crash(Instant now) {
  for (const auto& end : ends_) {
    end->die(true, now);
  }
  ends_.clear();
  listeners_.clear();
  program_.reset();
  manager_.reset();
  gsi_.reset();
}

Instant CmHost::deadline() const {
  if (!is_up()) {
    return Instant::never();
  }
  Instant next = std::min(manager_->deadline(), gsi_->deadline());
  for (const auto& end : ends_) {
    next = std::min(next, end->deadline());
  }
  if (program_) {
    program_->hca().for_each_qp([&](hca::Qp& qp) { next = std::min(next, qp.deadline()); });
  }
  return next;
}

/// Reports QP events to the ends.
void CmHost::notify_ends(Instant now) {
  const std::vector<Qpn> established = program_->take_established();
  const std::vector<Qpn> migrated = program_->take_migrated();
  for (const auto& end : ends_) {
    if (end->qp() == nullptr) {
      continue;
    }
    if (std::ranges::count(established, end->qp()->number()) != 0) {
      end->communication_established(now);
    }
    if (std::ranges::count(migrated, end->qp()->number()) != 0) {
      end->path_migrated(now);
    }
  }
}

void CmHost::step(Instant now) {
  if (!is_up()) {
    return;
  }
  gsi_->handle_timeout(now);
  manager_->handle_timeout(now);
  if (program_) {
    program_->hca().for_each_qp([&](hca::Qp& qp) {
      if (qp.deadline() <= now) {
        qp.handle_timeout(now);
      }
    });
    notify_ends(now);
  }
  for (const auto& end : ends_) {
    end->step(now);
  }
  std::erase_if(ends_, [](const auto& end) { return end->is_over() && end->qp() == nullptr; });
  manager_->run(now);
  manager_->check_invariants();
}

cm::Handled CmHost::handle(cm::CmId id, const cm::CmEvent& event, Instant now) {
  const bool is_request =
      event.type == cm::CmEventType::ReqReceived || event.type == cm::CmEventType::SidrReqReceived;
  return is_request ? server_(*this, id, event, now) : cm::Handled::Keep;
}

std::string CmHost::leftover() {
  if (!is_up()) {
    return "is down";
  }
  for (const cm::IdStatus& id : manager_->ids()) {
    if (id.state != cm::State::Listen) {
      return fmt::format("id {} is left in {}{}", id.id.value(), name_of(id.state),
                         id.is_detached ? ", without its user" : "");
    }
  }
  if (manager_->ids().size() != listeners_.size()) {
    return "listeners are left that nobody made";
  }
  unsigned qps = 0;
  program_->hca().for_each_qp([&](hca::Qp&) { ++qps; });
  if (qps != 0 || !ends_.empty()) {
    return fmt::format("{} QPs and {} ends are left", qps, ends_.size());
  }
  return gsi_->in_flight() != 0 ? "MADs wait for answers" : "";
}

}  // namespace weft::sim
