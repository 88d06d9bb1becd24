pub struct Log;

impl Log {
    pub fn write(&self) {
    }
}
