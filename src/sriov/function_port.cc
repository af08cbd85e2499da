#include "sriov/function_port.h"

#include <span>

#include "wire/mad/mad.h"
#include "wire/mad/port_info.h"
#include "wire/mad/smp.h"

namespace weft::sriov {
namespace {

using verbs::AsyncEventType;
using wire::SmpAttribute;

[[nodiscard]] bool is_smp(const wire::MadHeader& header) {
  return header.mgmt_class == wire::ManagementClass::SubnLidRouted ||
         header.mgmt_class == wire::ManagementClass::SubnDirectedRoute;
}

constexpr std::uint16_t kDirectionBit = 0x8000;  // D of a directed-route SMP is no status

}  // namespace

std::string_view name_of(FunctionPortState state) {
  switch (state) {
    case FunctionPortState::Down:
      return "Down";
    case FunctionPortState::PendingUp:
      return "PendingUp";
    case FunctionPortState::Active:
      return "Active";
  }
  return {};
}

std::optional<AsyncEventType> FunctionPort::handle(FunctionPortInput input) {
  const FunctionPortState before = state_;
  switch (input) {
    case FunctionPortInput::PortUp:
      state_ = has_guid_ ? FunctionPortState::Active : FunctionPortState::PendingUp;
      break;
    case FunctionPortInput::PortDown:
      state_ = FunctionPortState::Down;
      break;
    case FunctionPortInput::GuidValid:
      has_guid_ = true;
      state_ = before == FunctionPortState::Down ? before : FunctionPortState::Active;
      break;
    case FunctionPortInput::GuidInvalid:
      has_guid_ = false;
      state_ = before == FunctionPortState::Down ? before : FunctionPortState::PendingUp;
      break;
  }
  const bool was_active = before == FunctionPortState::Active;
  const bool is_active = state_ == FunctionPortState::Active;
  if (was_active == is_active) {
    return std::nullopt;
  }
  return is_active ? AsyncEventType::PortActive : AsyncEventType::PortError;
}

PortChange SmpObserver::observe(const MadBytes& answer, wire::MadMethod request) {
  const auto header =
      wire::unpack<wire::MadHeader>(std::span{answer}.first<wire::kSizeOf<wire::MadHeader>>());
  if (!is_smp(header) || header.method != wire::MadMethod::GetResp ||
      (header.status & ~kDirectionBit) != 0) {
    return {};
  }
  const auto attribute = static_cast<SmpAttribute>(header.attribute_id);
  const bool is_own = header.attribute_modifier == 0 || header.attribute_modifier == port_.value();
  PortChange change;
  if (attribute == SmpAttribute::PortInfo && is_own) {
    change = observe_port_info(answer);
  } else if (attribute == SmpAttribute::PKeyTable && request == wire::MadMethod::Set) {
    change.events.push_back(AsyncEventType::PKeyChange);
  } else if (attribute == SmpAttribute::GuidInfo && request == wire::MadMethod::Set) {
    change.events.push_back(AsyncEventType::GidChange);
  }
  return change;
}

PortChange SmpObserver::observe_port_info(const MadBytes& answer) {
  const auto info = wire::unpack<wire::PortInfo>(
      std::span{answer}.subspan<wire::kSmpDataAt, wire::kSizeOf<wire::PortInfo>>());
  PortChange change;
  const bool is_up = info.port_state == wire::LinkState::Active;
  if (is_up != is_up_) {
    change.is_up = is_up;
  }
  if (has_seen_port_info_ && info.lid != lid_) {
    change.events.push_back(AsyncEventType::LidChange);
  }
  const bool has_new_manager = has_seen_port_info_ && info.master_sm_lid != master_sm_lid_;
  if (has_new_manager) {
    change.events.push_back(AsyncEventType::SmChange);
  }
  if (info.client_reregister) {
    change.events.push_back(AsyncEventType::ClientReregister);
  }
  change.needs_registration = info.client_reregister || has_new_manager;
  has_seen_port_info_ = true;
  is_up_ = is_up;
  lid_ = info.lid;
  master_sm_lid_ = info.master_sm_lid;
  return change;
}

}  // namespace weft::sriov
