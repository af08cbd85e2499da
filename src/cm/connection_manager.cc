#include "cm/connection_manager.h"

#include "cm/manager.h"

namespace weft::cm {

ConnectionManager::ConnectionManager(const Options& options)
    : impl_(std::make_unique<Impl>(options)) {}
ConnectionManager::~ConnectionManager() = default;

Result<void> ConnectionManager::add_port(PortKey port, mad::ManagementInterface& gsi,
                                         const PortAddress& address) {
  return impl_->add_port(port, gsi, address);
}
Result<void> ConnectionManager::update_port(PortKey port, const PortAddress& address) {
  return impl_->update_port(port, address);
}
Result<void> ConnectionManager::remove_port(PortKey port, Instant now) {
  return impl_->remove_port(port, now);
}

Result<CmId> ConnectionManager::create(CmObserver& observer, std::uint64_t context) {
  return impl_->create(observer, context);
}
Result<void> ConnectionManager::set_observer(CmId id, CmObserver& observer, std::uint64_t context) {
  return impl_->set_observer(id, observer, context);
}
Result<void> ConnectionManager::destroy(CmId id, Instant now) {
  return impl_->destroy(id, Handled::Destroy, now);
}

Result<std::uint64_t> ConnectionManager::listen(CmId id, const ListenParameters& parameters) {
  return impl_->listen(id, parameters);
}
void ConnectionManager::expect_listener(std::uint64_t service_id, Instant now) {
  impl_->expect_listener(service_id, now);
}

bool ConnectionManager::offers_datagram_service(std::uint64_t service_id, Guid ca_guid,
                                                ByteSpan private_data) const {
  return impl_->listeners().find(service_id, ca_guid, private_data, QpType::Ud) != kNoCmId;
}
Result<CmId> ConnectionManager::insert_listen(CmObserver& observer, std::uint64_t service_id,
                                              std::optional<Guid> ca_guid) {
  return impl_->insert_listen(observer, service_id, ca_guid);
}

Result<void> ConnectionManager::send_req(CmId id, const RequestParameters& parameters,
                                         Instant now) {
  return impl_->send_req(id, parameters, now);
}
Result<void> ConnectionManager::send_rep(CmId id, const ReplyParameters& parameters, Instant now) {
  return impl_->send_rep(id, parameters, now);
}
Result<void> ConnectionManager::send_rtu(CmId id, ByteSpan private_data, Instant now) {
  return impl_->send_rtu(id, private_data, now);
}
Result<void> ConnectionManager::send_rej(CmId id, const RejectParameters& parameters, Instant now) {
  return impl_->send_rej(id, parameters, now);
}
Result<void> ConnectionManager::send_mra(CmId id, std::uint8_t service_timeout,
                                         ByteSpan private_data, Instant now, MraTime time) {
  return impl_->send_mra(id, service_timeout, private_data, now, time);
}
Result<void> ConnectionManager::notify(CmId id, AsyncEventType event, Instant now) {
  return impl_->notify(id, event, now);
}
Result<void> ConnectionManager::send_dreq(CmId id, ByteSpan private_data, Instant now) {
  return impl_->send_dreq(id, private_data, now);
}
Result<void> ConnectionManager::send_drep(CmId id, ByteSpan private_data, Instant now) {
  return impl_->send_drep(id, private_data, now);
}
Result<void> ConnectionManager::send_lap(CmId id, const Path& alternate, ByteSpan private_data,
                                         Instant now) {
  return impl_->send_lap(id, alternate, private_data, now);
}
Result<void> ConnectionManager::send_apr(CmId id, const AprParameters& parameters, Instant now) {
  return impl_->send_apr(id, parameters, now);
}
Result<void> ConnectionManager::send_sidr_req(CmId id, const SidrRequestParameters& parameters,
                                              Instant now) {
  return impl_->send_sidr_req(id, parameters, now);
}
Result<void> ConnectionManager::send_sidr_rep(CmId id, const SidrReplyParameters& parameters,
                                              Instant now) {
  return impl_->send_sidr_rep(id, parameters, now);
}
Result<QpModification> ConnectionManager::init_qp_attributes(CmId id, QpState target) const {
  return impl_->init_qp_attributes(id, target);
}

void ConnectionManager::run(Instant now) { impl_->run(now); }
void ConnectionManager::handle_timeout(Instant now) { impl_->handle_timeout(now); }
Instant ConnectionManager::deadline() const { return impl_->deadline(); }

std::optional<IdStatus> ConnectionManager::status(CmId id) const { return impl_->status(id); }
std::vector<IdStatus> ConnectionManager::ids() const { return impl_->ids(); }
const Counters& ConnectionManager::counters() const { return impl_->counters; }
const Limits& ConnectionManager::limits() const { return impl_->options.limits; }
void ConnectionManager::check_invariants() const { impl_->check_invariants(); }

}  // namespace weft::cm
